"""Readers whose key has databases: nothing of another one reaches them, whatever fails."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from random import Random
from typing import TYPE_CHECKING

from topicast.tests.cluster.metastore import DBS, NAMES
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.violation import Violation
from topicast.topics.objects.names import group_of
from topicast.topics.policy import Policy
from topicast.topics.topic import FULL, accounted_bytes
from topicast.topics.wire.header import policy_lead
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import Barrier, Heartbeat
from topicast.topics.wire.messages.readers import Joined
from topicast.topics.wire.refusal import Refusal

if TYPE_CHECKING:
    from topicast.tests.sim.world import World

RESTRICTED_EVERY = 5  # runs: in one of them a reader has a policy
CHANGE_S = 0.9  # between two changes of a policy, on average
POLICIES = tuple(Policy((one,)) for one in ("a", "b", "*"))
ANY_POLICY = policy_lead(0)
REFUSED = re.compile("not visible to this|neither a known table")  # name what the reader named


def is_restricted(seed: int) -> bool:
    """Return whether the first reader of a run has a policy."""
    return seed % RESTRICTED_EVERY == 2


class Leaks:
    """Looks at every frame that arrives at a reader with a policy.

    A hub or catalogd that has not received a change of the policy goes by the old policy, so a
    frame is held against what its sender knows.
    """

    def __init__(self, world: "World", reader: ReaderProcess) -> None:
        self._world = world
        self._reader = reader
        reader.arrived.append(self._arrived)

    def _arrived(self, channel: str, frame: bytes) -> None:
        policy = self._policy(channel)
        hidden = [db for db in DBS if policy is None or not policy.sees(db)]
        message = self._world.frames.read(frame)
        self._world.counts["frames of restricted readers"] += 1
        if isinstance(message, Heartbeat) and frame.startswith(ANY_POLICY) and message.sizes:
            raise Violation(f"{self._reader.name} receives the sizes of whole topics")
        if isinstance(message, Barrier):
            return  # 16 bytes that the reader has drawn, whatever they look like
        if isinstance(message, Refused) and message.code == Refusal.NOT_VISIBLE:
            return  # it names what the reader named
        if isinstance(message, Joined):
            self._look_at_sizes(message, policy)
        for db in hidden:
            for found in _texts(message):
                if _names(found, db):
                    text = f"{self._reader.name}, which may see {policy}, receives {found!r}"
                    raise Violation(f"{text} in a {type(message).__name__} on {channel}")

    def _policy(self, channel: str) -> Policy | None:
        """Return what the sender knows of our policy; None: nothing."""
        reader = self._reader
        if channel not in ("control", "bulk", "data"):
            return reader.policy
        hub = self._world.hubs[reader.data if channel == "data" else reader.hub]
        known = hub.clients.with_key(reader.client.public)
        return known.policy if known is not None else None

    def _look_at_sizes(self, joined: Joined, policy: Policy | None) -> None:
        """Sizes are of what may be seen: none, where nothing is."""
        catalogd = self._world.catalogd
        if (joined.epoch, joined.start) != catalogd.published.position:
            return
        for state in joined.topics:
            topic = catalogd.published.topics.get(state.topic)
            if state.level != FULL or topic is None or topic.version != state.version:
                continue
            if topic.floor:
                continue  # the hub may hold tombstones, which count, that catalogd has discarded
            seen = (e for e in topic.since(0) if _may_be_seen(group_of(e.key), policy))
            size = sum(map(accounted_bytes, seen))
            if state.full_bytes > size:
                text = f"{state.full_bytes} bytes of topic {state.topic}, of {size} that it sees"
                raise Violation(f"{self._reader.name} is notified of {text}")


def change_now_and_then(world: "World", reader: ReaderProcess, rng: Random) -> None:
    """Give ``reader`` another policy now and then, until nothing fails any more."""
    if not world.faults:
        return
    world.restrict(reader, rng.choice([one for one in POLICIES if one != reader.policy]))
    world.counts["policies changed"] += 1
    world.at(rng.expovariate(1 / CHANGE_S), lambda: change_now_and_then(world, reader, rng))


def _may_be_seen(group: bytes, policy: Policy | None) -> bool:
    first, second, _ = group.split(b"\0", 2)
    db = second if first in (b"d", b"n") else first
    return policy is None or first == b"c" or policy.sees(db.decode())


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a message, and every run of bytes as text."""
    if is_dataclass(value):
        for one in fields(value):
            yield from _texts(getattr(value, one.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, str) and not REFUSED.search(value):
        yield value


def _names(text: str, db: str) -> bool:
    """Return whether ``text`` names ``db``: as a key, a place, or a table of it."""
    tables = "|".join(NAMES)
    return bool(
        re.search(rf"(^|[dn]\0){db}\0|/{db}/|\b{db}\.({tables})\b|^{db}$", text)
        if len(text) < 40
        else re.search(rf"^([dn]\0)?{db}\0|/{db}/({tables})/", text)
    )
