"""The world of the simulator: a cluster with dice, a driver that only writes, and mirrors."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from topicast.catalog.content.unloading import UnloadSettings
from topicast.tests.cluster.catalogd import SETTINGS
from topicast.tests.cluster.cluster import SETUPS, Cluster
from topicast.tests.cluster.reader import Setup
from topicast.tests.sim.drivers import DriverProcess
from topicast.tests.sim.mirror import Mirror

UNLOADING = replace(SETTINGS, unload=UnloadSettings(timeout_s=0.7))  # in the midst of the trouble
CHECK_EVERY = 11  # steps of cores: an assertion of all invariants costs as much as a step


class World(Cluster):
    """A cluster in which everything goes wrong that can, as often as ``rng`` says."""

    def __init__(
        self,
        rng: Random,
        setups: Sequence[Setup] = SETUPS,
        *,
        faults: bool = True,
        limited: bool = False,
    ) -> None:
        super().__init__(
            rng,
            setups,
            faults=faults,
            settings=UNLOADING if limited else SETTINGS,
            check_every=CHECK_EVERY,
            limited=limited,
        )
        self.mirrors = [Mirror() for _ in self.readers]
        for mirror, reader in zip(self.mirrors, self.readers, strict=True):
            reader.changed.append(mirror.offer)
            if reader.setup.watching:
                reader.steps.append(mirror.stepped)
        self.driver = DriverProcess(self)
        self.clients[b"w/"] = self.driver
