"""A large event is made light, and names the same partitions."""

import json
from dataclasses import replace
from random import Random

import pytest

from topicast.catalog.ingest.events.actions import dirty_objects, text_of
from topicast.catalog.ingest.loads import light as module
from topicast.catalog.ingest.loads.light import TYPES, lightened
from topicast.catalog.metastore.port import DirtyPartitions, RawEvent
from topicast.tests.catalog.ingest.events.test_corpus import RELEASES, packed, recorded

TRICKY = ', "partitionListJson":["x"], \\"}], ü \\\\'
LARGE_CHARS = 60_000  # instead of megabytes
PARTITIONS = 400
DAMAGED = 100


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAID_BYTES_MAX", LARGE_CHARS)
    monkeypatch.setattr(module, "PACKED_CHARS_MIN", 1_000)


def large(release: str, size: int = 20 * LARGE_CHARS) -> list[tuple[RawEvent, str]]:
    """Return events of ``release`` as if they were of many partitions, with their plain texts."""
    found = []
    for _, event in recorded(release):
        if event.type not in TYPES:
            continue
        plain = unpacked(event)
        body = json.loads(plain)
        if not body.get("partitionListJson"):
            continue
        one = json.dumps({**json.loads(body["partitionListJson"][0]), "99": {"str": TRICKY}})
        pad = " " * (size // PARTITIONS)
        body["partitionListJson"] = [one[:-1] + pad + "}"] * PARTITIONS
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        is_gzip = event.message_format.startswith("gzip")
        found.append((replace(event, message=packed(text.encode()) if is_gzip else text), text))
    return found


def unpacked(event: RawEvent) -> str:
    text = text_of(event)
    return text if isinstance(text, str) else text.decode()


@pytest.mark.parametrize("release", RELEASES)
def test_large_event_without_its_objects_names_the_same_partitions(release: str) -> None:
    events = large(release)
    assert events
    for event, text in events:
        (light,) = lightened([event])
        assert len(light.message) < len(text) // 20
        assert (light.digest, light.size, light.id) == (event.digest, event.size, event.id)
        (heavy,), (found,) = dirty_objects(event), dirty_objects(light)
        assert isinstance(heavy, DirtyPartitions)
        assert found == replace(heavy, contents=())


def test_other_events_are_left_as_they_are() -> None:
    for _, event in recorded("2.3.10"):
        assert lightened([event]) == (event,)
        assert lightened([event])[0].message is event.message


def test_large_event_that_is_damaged_is_no_other_event_afterwards() -> None:
    """A damaged message is read as before, or cannot be decoded; it gives no made-up name."""
    rng = Random(7)
    (event, text), *_ = large("2.3.10")
    (whole,) = dirty_objects(event)
    assert isinstance(whole, DirtyPartitions)
    for _ in range(DAMAGED):
        at = rng.randrange(len(text))
        pieces = ("", '"', "\\", "]", "[", '{"', text[:40], '"partitionListJson":[')
        broken = text[:at] + rng.choice(pieces) + text[at + rng.randrange(3) :]
        (light,) = lightened([replace(event, message=broken)])
        for dirty in dirty_objects(light):
            if isinstance(dirty, DirtyPartitions):
                assert len(dirty.names) <= len(whole.names)
            else:
                assert dirty.degraded
    cut = replace(event, message=text[: len(text) // 2])
    assert lightened([cut])[0].message is cut.message
