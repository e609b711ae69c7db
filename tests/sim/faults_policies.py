"""Faults in what readers with a policy are sent, and in what becomes of it when that changes."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from topicast.catalog.serve.visibility import is_visible
from topicast.statestore.content.policies import Policies
from topicast.tests.sim.fault import BY_SEED, Fault
from topicast.topics.keys.clients import Clients
from topicast.topics.policy import Policy
from topicast.topics.streams.sender import chunks
from topicast.topics.topic import Entry
from topicast.topics.wire.messages.data import Delta


class CutsValuesAlone(Policy):
    def cut(self, topic: int, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        entries = tuple(entries)
        seen = super().cut(topic, entries)
        return tuple(one for one in entries if one.value is None or one in seen)


class LooksLikeAnyOther(Policy):
    @property
    def digest(self) -> int:
        return 0


class EndsNoConnections(Clients):
    def changed_since(self, before: Clients) -> frozenset[str]:
        return frozenset()


class HidesGaps(Policies):
    def deltas(self, delta: Delta) -> tuple[bytes, ...]:
        return super().deltas(replace(delta, from_version=0))


def _uncut_chunks(*args: Any, visible: object, **given: Any) -> Iterator[Any]:
    return chunks(*args, **given)


def _sees_all(table: object, policy: object) -> bool:
    return True


FAULTS = (
    Fault("stubs and tombstones are cut, too", BY_SEED, (CutsValuesAlone,), likely_seed=12),
    Fault("catch-ups are cut", BY_SEED, ((chunks, _uncut_chunks),), likely_seed=12),
    Fault(
        "pulls are refused before a look",
        BY_SEED,
        ((is_visible, _sees_all),),
        likely_seed=27,
    ),
    Fault("a delta that is cut says what it follows", BY_SEED, (HidesGaps,), likely_seed=187),
    Fault("another policy ends connections", BY_SEED, (EndsNoConnections,), likely_seed=12),
    Fault("a position is of one policy", BY_SEED, (LooksLikeAnyOther,), likely_seed=27),
)
