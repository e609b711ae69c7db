"""Situations of a planner, what its steps come to, and what a set of full topics is worth."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from topicast.subscriber.placement.planner import PAYS_BACK_S, WORKING_ROOM, Plan, Situation
from topicast.subscriber.placement.usage import TopicUsage
from topicast.subscriber.store.latency import BYTES_PER_S, ROUND_TRIP_S
from topicast.tests.subscriber.placement.traces import MINIMAL_BYTES
from topicast.topics.topic import FULL, MINIMAL, NONE

KB = 1024


def use(reads: float = 1.0, misses: float = 0.0, *, working: int = 0, size: int = KB) -> TopicUsage:
    """Return a use that goes on, of tables of ``size`` bytes."""
    return TopicUsage(
        reads=reads,
        read_bytes=reads * size,
        misses=misses,
        missed_bytes=misses * size,
        working_bytes=working,
        read_at=1e9,
    )


def topic(number: int, level: int = NONE, *, size: int = 100 * KB, **more: object) -> Situation:
    """Return a topic that has its level since long ago, and was never read."""
    held = {NONE: 0, MINIMAL: MINIMAL_BYTES, FULL: size}[level]
    fields = {"since": -inf, "held_bytes": held, "usage": TopicUsage(), **more}
    return Situation(topic=number, level=level, full_bytes=size, **fields)  # type: ignore[arg-type]


def rigid_bytes(topics: Sequence[Situation]) -> int:
    """Return the bytes that cannot be evicted: all but what was pulled."""
    full = sum(max(t.full_bytes, t.held_bytes) for t in topics if t.level == FULL)
    return full + MINIMAL_BYTES * sum(t.level == MINIMAL for t in topics)


def perform(topics: Sequence[Situation], plan: Plan, *, budget: int, now: float) -> list[Situation]:
    """Do the steps; each has to fit, or to lead back into a budget that was exceeded before."""
    state = {t.topic: t for t in topics}
    assert plan.reasons.keys() == state.keys()
    assert len({step.topic for step in plan.steps}) == len(plan.steps)
    counted, rising = rigid_bytes(topics), 0
    for step in plan.steps:
        old = state[step.topic]
        assert old.level != step.level
        held = {NONE: 0, MINIMAL: MINIMAL_BYTES, FULL: old.full_bytes}[step.level]
        state[step.topic] = replace(old, level=step.level, since=now, held_bytes=held)
        if step.level == FULL and old.level == MINIMAL:
            rising += MINIMAL_BYTES  # the old level lives on until the new level is there
        before, counted = counted, rigid_bytes(list(state.values())) + rising
        assert counted <= max(budget, before)
    return list(state.values())


def worth(topics: Sequence[Situation], full: set[int], offered: Sequence[int], room: int) -> float:
    """Say what waiting a second is saved with ``full``, and the rest for the cache; -1: no room."""
    total, cached = 0.0, []
    room -= MINIMAL_BYTES * len(topics)
    for one in topics:
        reads = one.usage.reads * ROUND_TRIP_S + one.usage.read_bytes / BYTES_PER_S
        rest = one.usage.misses * ROUND_TRIP_S + one.usage.missed_bytes / BYTES_PER_S
        working = min(int(one.usage.working_bytes * WORKING_ROOM), one.full_bytes)
        working = working if MINIMAL in offered else 0
        rest = rest if one.usage.working_bytes and MINIMAL in offered else reads
        brought = 0.0 if one.level == FULL else one.full_bytes / BYTES_PER_S / PAYS_BACK_S
        if one.topic in full:
            room -= one.full_bytes
            total += reads - rest + max(rest - brought, 0.0)
        elif reads > rest:
            cached.append(((reads - rest) / max(working, 1), max(working, 1)))
    if room < 0:
        return -1.0
    for density, size in sorted(cached, reverse=True):
        part = min(size, room)
        total += density * part
        room -= part
    return total
