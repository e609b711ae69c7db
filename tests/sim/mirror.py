"""A mirror: what a watcher may believe; it is notified of all that is so no more."""

from collections.abc import Callable
from dataclasses import dataclass, field

from topicast.subscriber.engine.core import Core
from topicast.subscriber.engine.watch import Watch, Watches
from topicast.subscriber.protocol.effects import Change
from topicast.tests.cluster.metastore import State, TableId
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.checkers import Place, Requested, same
from topicast.topics.topic import table_topic


@dataclass(slots=True)
class Mirror:
    """One subscriber's answers and changes, in the order in which they came.

    A topic that is followed at no level notifies of nothing: what was answered before is not
    counted, nor what was before the subscriber was ready.
    """

    watches: Watches = field(default_factory=Watches)
    watch: Watch = field(init=False)
    _now: int = 0
    _is_open: bool = False
    _answers: list[tuple[int, Requested, State, Place]] = field(default_factory=list)
    _offered: dict[str, int] = field(default_factory=dict)
    _heard: dict[str, int] = field(default_factory=dict)
    _deaf: dict[int, int] = field(default_factory=dict)
    _raised: dict[str, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = self.watches.add("*")

    def offer(self, changes: tuple[Change, ...]) -> None:
        """Take changes on their way to the watch."""
        self._now += 1
        self.watches.offer(changes)
        self._offered |= dict.fromkeys((one.object for one in changes), self._now)

    def raised(self, name: str, place: Place) -> None:
        """Take that data of a table was written, of which nothing but ``place`` is seen."""
        self._raised[name] = place

    def restored(self) -> None:
        """The store was replaced by a store that may know of no such write."""
        self._raised.clear()

    def answered(self, requested: Requested, seen: State, place: Place) -> None:
        """Take an answer: it is what is believed from now on; ``place`` is its data version."""
        self._now += 1
        self._answers.append((self._now, requested, seen, place))

    def stepped(self, member: Core) -> None:
        """Note which topics are followed at no level."""
        replicas = member.subscriptions.replicas
        self._is_open = self._is_open or member.subscriptions.ready()
        if not self._is_open:
            self._answers.clear()
        for topic in range(member.view.num_topics):
            if topic not in replicas:
                self._deaf[topic] = self._now

    def begun_anew(self) -> None:
        """Take that a watch raises StaleMetadata: nothing that was answered is believed."""
        self._is_open = False
        self._answers.clear()

    def listen(self) -> int:
        """Hear what waits; returns how much."""
        count = 0
        if self._offered == self._heard:
            return count
        while (change := self.watch.next_within(0)) is not None:
            self._heard[change.object] = self._offered[change.object]
            count += 1
        return count

    def calm(
        self,
        history: dict[TableId, list[tuple[int, State]]],
        num_topics: int,
        sees: Callable[[str], bool | None],
    ) -> None:
        """Everything has arrived: no watcher may believe what is not so, unless it was notified.

        ``sees``: whether the subscriber may see a database.
        """
        self.listen()
        for at, requested, seen, place in self._answers:
            if not sees(requested.table[0]):
                continue
            name, topic = ".".join(requested.table), table_topic(*requested.table, num_topics)
            now = self._raised.get(name, (0, 0))
            written = now[0] == place[0] and now > place
            if same(requested, seen, history[requested.table][-1][1]) and not written:
                continue
            if max(self._heard.get(name, 0), self._deaf.get(topic, 0)) < at:
                raise Violation(f"{requested}: {seen} is so no more, and no watcher was notified")
