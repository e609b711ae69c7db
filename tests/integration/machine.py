"""Machine: drawn changes, pauses, kills and lost events, on real parts; then both sides are equal.

    changes of all kinds ──▶ metastore ──relay──▶ catalogd ──▶ hub ──▶ two subscribers
    meanwhile: events are paused, catalogd is frozen, events are deleted from the log, connections
    are cut, catalogd, the hub or a subscriber ends and is back, another mode holds
    a look: everything goes on, both subscribers sync, and equal the metastore

Hypothesis draws kinds; ``dice`` is the seed of what one draws itself. An example has databases
of its own. Every step is printed, so a failure shows the order that led to it.
"""

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final, TypeVar

import hypothesis.strategies as st
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    MetaException,
    NoSuchObjectException,
)
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.hive.releases import RealMetastore, home
from topicast.tests.integration.changes import Changes
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.equality import differing
from topicast.tests.integration.relay import Relay
from topicast.tests.waiting import until

SEED: Final = int(os.environ.get("SEED", "20261127"))
LONG: Final = int(os.environ.get("OPERATIONS", "2000"))
STEPS: Final = 40  # of an example, at whose end all is dropped
SYNC_S: Final = 60.0
CALM: Final = 6  # changes between two troubles, at least
DICE: Final = st.integers(0, 9_999)
LOOKS: Final = st.sampled_from([False] * 6 + [True])
HOLES: Final = ((), (1,), (1, 2, 3), (2,), (2, 4), (3, 4, 5), tuple(range(1, 20)))
"""Which events are lost of those that were not read: 1 is the first."""
TROUBLES: Final = (
    *("pause", "freeze", "cut connections", "kill catalogd", "kill statestored"),
    *("restart a reader", "turn the mode"),
)
READERS: Final = ("full", "minimal", "auto")
C = TypeVar("C", bound=Changes)
S = TypeVar("S", bound="Stack")
FAMILIES: Final = itertools.count(1)


class Stack:
    """All parts, which outlive an example."""

    def __init__(self, hive: RealMetastore, daemons: Daemons, relay: Relay, folder: Path) -> None:
        self.hive, self.daemons, self.relay, self.folder = hive, daemons, relay, folder
        self.counts: Counter[str] = Counter()  # of what was done, by kind
        self.refused: Counter[str] = Counter()

    def changes(self, family: str) -> Changes:
        """Return a writer of databases whose names begin with ``family``."""
        return self.made(Changes, family)

    def made(self, kind: type[C], family: str) -> C:
        """Return such a writer of ``kind``."""
        host, _, port = self.hive.uri.removeprefix("thrift://").partition(":")
        found = home()
        release = "2.3" if found is None else found.name.removeprefix("hive-")
        where = f"file:{self.folder}"
        return kind(host=host, port=int(port), location=where, family=family, release=release)


@contextmanager
def stack(hive: RealMetastore, folder: Path, kind: type[S] = Stack) -> Iterator[S]:  # type: ignore[assignment]
    """Run catalogd behind a relay, and a hub, on ``hive``."""
    with Relay(hive.uri) as relay, both_daemons(folder, relay.uri) as daemons:
        yield kind(hive, daemons, relay, folder)


class Machine(RuleBasedStateMachine):
    """One example; see ``machine_of``."""

    beginning: ClassVar[tuple[str, ...]] = ("create table",) * 5 + ("add partitions",) * 4

    def __init__(self, parts: Stack) -> None:
        super().__init__()
        self.parts = parts
        self._ends = ExitStack()
        self.changes = parts.changes(f"m{next(FAMILIES)}")
        self._ends.enter_context(self.changes.client)
        for db in self.changes.shared:
            where = f"{self.changes.location}/{db}"
            self.changes.client.create_database(Database(db, "shared", where, {}))
        for kind in self.beginning:
            self.changes.attempt(kind)
        self._readers = [self._reader(level) for level in READERS[:2]]
        self._calm = 0  # changes since the last trouble
        self._held = ""  # paused or frozen
        self._holes: tuple[int, tuple[int, ...]] = (0, ())  # the newest event then, and see HOLES

    # -- what is done

    def do(self, kind: str, dice: int, *, looks: bool) -> None:
        """Make one change, which the metastore may refuse, or let something go wrong."""
        if kind in TROUBLES:
            self._go_wrong(kind, Random(dice))
        else:
            self._change(kind, dice)
        if looks:
            self.look()

    def _change(self, kind: str, dice: int) -> None:
        self.changes.rng = Random(dice)
        before = self.changes.refused
        self.changes.attempt(kind)
        was_done = self.changes.refused == before
        (self.parts.counts if was_done else self.parts.refused)[kind] += 1
        say(f"{kind} ({dice}){'' if was_done else ': refused'}")
        self._calm += 1

    def _go_wrong(self, kind: str, drawn: Random) -> None:
        """Let it, after some changes; what stands still now may die, and answers nothing."""
        if self._calm < CALM or (self._held and not kind.startswith("kill")):
            say(f"{kind}: not now")
            return
        say(kind)
        self._calm = 0
        self.parts.counts[kind] += 1
        wrong: tuple[Callable[[], None], ...] = (
            lambda: self._pause(drawn),
            lambda: self._freeze(drawn),
            lambda: self.parts.relay.lead_to(self.parts.hive.uri),  # as its restart cuts them
            lambda: self._kill("catalogd"),
            lambda: self._kill("statestored"),
            lambda: self._restart_reader(drawn),
            lambda: self._order("mode", drawn.choice(("full", "mixed", "minimal"))),
        )
        dict(zip(TROUBLES, wrong, strict=True))[kind]()

    def _pause(self, drawn: Random) -> None:
        self._order("events", "pause")
        self._held, self._holes = "paused", (self._newest(), drawn.choice(HOLES))

    def _freeze(self, drawn: Random) -> None:
        self.parts.daemons.freeze("catalogd")
        self._held, self._holes = "frozen", (self._newest(), drawn.choice(HOLES))

    def _kill(self, name: str) -> None:
        self.parts.daemons.kill(name)
        self.parts.daemons.start(name)
        if name == "catalogd" and self._held == "frozen":
            self._held = ""

    def _restart_reader(self, drawn: Random) -> None:
        """Let the older subscriber end, and a new one open."""
        self._readers.pop(0).close()
        self._readers.append(self._reader(drawn.choice(READERS)))

    def look(self) -> None:
        """Let everything go on, and compare."""
        self._go_on()
        began = time.monotonic()
        while self.changes.unreported:
            name = self.changes.unreported.pop()
            with suppress(NoSuchObjectException):
                self._has(name)
                assert self._order("refresh", name)["failed"] == 0
        for reader in self._readers:
            reader.sync(timeout_s=SYNC_S)
            damaged = differing(
                reader,
                self.changes.client,
                self.changes.databases,
                is_left_out=self.changes.is_off,
                may_be_held=frozenset(self.changes.stale),
            )
            assert damaged == [], "one writer damages nothing"
        self.parts.counts["look"] += 1
        say(f"look: equal, {time.monotonic() - began:.2f} s")

    def teardown(self) -> None:
        """Look at last, and leave nothing behind."""
        try:
            self.look()
        finally:
            self._go_on()
            for reader in self._readers:
                reader.close()
            there = set(self.changes.client.get_all_databases())
            for db in there.intersection(self.changes.databases):
                with suppress(MetaException):  # 2.3 drops none with a key that others refer to
                    self.changes.client.drop_database(db, False, True)
            self._ends.close()

    # -- parts of it

    def _go_on(self) -> None:
        """End what stands still, once events that it has not read are lost."""
        held, self._held = self._held, ""
        if not held:
            return
        self._lose(*self._holes)
        if held == "frozen":
            self.parts.daemons.thaw("catalogd")
        else:
            self._order("events", "start")

    def _lose(self, seen: int, holes: tuple[int, ...]) -> None:
        """Delete events above the id ``seen`` from the log."""
        if not isinstance(self.parts.hive, EmbeddedMetastore):
            return  # nothing reaches the database of another release while it runs
        lost = sorted({seen + ago for ago in holes if seen + ago <= self._newest()})
        for id_ in lost:
            self.parts.hive.sql(f'DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" = {id_}')
        if lost:
            self.parts.counts["lose events"] += 1
            say(f"lost of {seen + 1} to {self._newest()}: {lost}")

    def _order(self, *words: str) -> dict[str, Any]:
        """Give an order, once the hub knows catalogd."""
        until(lambda: self.parts.daemons.status("catalog"), timeout_s=SYNC_S, what="catalogd")
        return self.parts.daemons.order(*words)

    def _newest(self) -> int:
        return int(self.changes.client.get_current_notificationEventId().eventId)

    def _has(self, name: str) -> None:
        """Raise NoSuchObjectException unless the metastore has a table, or a database."""
        db, _, table = name.partition(".")
        if table:
            self.changes.client.get_table(db, table)
        else:
            self.changes.client.get_database(db)

    def _reader(self, level: str) -> Subscriber:
        levels = "full" if level == "full" else "auto"
        address = self.parts.daemons.hub_address
        reader = Subscriber(address, budget="64MB", timeout_s=SYNC_S, levels=levels)
        return reader.open()


def machine_of(kinds: Iterable[str], base: type[Machine] = Machine) -> type[Machine]:
    """Return a machine that draws from ``kinds`` of changes, and from what may go wrong.

    They are one rule: hypothesis would leave out most rules in most examples.
    """

    class Drawn(base):  # type: ignore[misc, valid-type]
        @rule(kind=st.sampled_from((*kinds, *TROUBLES)), dice=DICE, looks=LOOKS)
        def step(self, kind: str, dice: int, looks: bool) -> None:
            self.do(kind, dice, looks=looks)

    return Drawn


def run(parts: Stack, machine: type[Machine], *, operations: int) -> None:
    """Draw examples of STEPS operations each, and say what was done.

    The first example is hypothesis's simplest one, which hardly changes anything: it is one more.
    """

    class Seeded(machine):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(parts)

    shrinks = (Phase.shrink,) if os.environ.get("SHRINK") else ()
    found = settings(
        max_examples=1 + operations // STEPS,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=(Phase.generate, *shrinks),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(SEED)(Seeded), settings=found)
    finally:
        say(f"seed {SEED}: {sum(parts.counts.values())} operations, {dict(parts.counts)}")
        say(f"refused: {dict(parts.refused)}")


def say(text: str) -> None:
    """Print what has happened, for whoever looks at a failure."""
    print(f"{time.monotonic() % 10_000:.1f} {text}", flush=True)
