"""Faults in what watches are notified of, which an application finds that believes its watch."""

from topicast.subscriber.engine.watch import Watches
from topicast.subscriber.protocol.effects import Change
from topicast.subscriber.replication.replicas import TopicReplicas
from topicast.tests.sim.fault import BY_SEED, Fault


class SilentAboutRestarts(Watches):
    def lose(self) -> None:
        """Do nothing."""


class NotifiesTwice(TopicReplicas):
    _repeated: tuple[Change, ...] = ()

    def take_changes(self) -> tuple[Change, ...]:
        again, self._repeated = self._repeated, super().take_changes()
        return (*again, *self._repeated)


FAULTS = (
    Fault(
        "a watch is notified of a restart",
        BY_SEED,
        (SilentAboutRestarts,),
        watched=True,
        likely_seed=10,
    ),
    Fault("a change comes once", BY_SEED, (NotifiesTwice,), watched=True),
)
