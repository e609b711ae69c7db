"""Control: every field of every message is checked for type and range before it is believed."""

import dataclasses
from typing import Any

import msgpack
import pytest

from topicast.topics.errors import WireError
from topicast.topics.objects.names import KEY_BYTES_MAX
from topicast.topics.wire import decode, encode
from topicast.topics.wire import header as h
from topicast.topics.wire.messages.answers import (
    HubTopics,
    KeyCuts,
    NamedFacts,
    SweepPage,
    TableUses,
)
from topicast.topics.wire.messages.catalog import (
    Compared,
    Grant,
    Granted,
    Lease,
    Leased,
    Pull,
    Pulled,
    Scan,
    Scanned,
    Synced,
    Used,
    Validate,
    Validated,
)
from topicast.topics.wire.messages.connection import Bye, Hello, Refused
from topicast.topics.wire.messages.numbers import NUMBERS
from topicast.topics.wire.messages.publishers import Filed
from topicast.topics.wire.messages.readers import CatchUp, DriverFacts, Drop, Join, Joined, Position
from topicast.topics.wire.messages.reports import Report, Reported, Sweep, Swept
from topicast.topics.wire.shapes import LIST_MAX, ROWS_MAX, SHAPES, TEXT_MAX

KEY = b"a\0b\0"
FIELDS: dict[type, list[Any]] = {
    Hello: [1, 1, "n", bytes(16), 1, 1, 0, False],
    Refused: [1, "BUSY", "again", 100, -1, "db.t"],
    Join: [1, [2, [8, 1], 2, 5, [3, 4]]],
    Joined: [1, 5, 9, [2, 1, 2, 0, [3, 4], [10, 11]]],
    Filed: [5, 6, [[7, 3]]],
    CatchUp: [1, 100, [[7, 2, 5, 3, 2, KEY, 4]]],
    Compared: [1, True, 5, 6],
    Validate: [1, 5, [["db", "t", 3, True]]],
    Validated: [1, 5, 9, [[0, 4]]],
    Report: [1, bytes(16), "h:9083", 3, [[3, 1, "db.t", ["ds=1"]]]],
    Reported: [1, 5, 9, [[3, 7, 42, "", ""]]],
    Pull: [
        *(1, "db", "t", [2, ["=", "ds", "x"]], 100, [[KEY, 3]]),
        *(True, 1000, KEY, 5, 3, [["db", "u", 3, True]]),
    ],
    Pulled: [
        *(1, 0, True, True, 5, 6, 7, 3, 2, 1, [KEY], [[KEY, 3, 2, 1, b"v"]]),
        *(b"names", KEY, False, [0]),
    ],
    Scan: [1, 5, 7, 3, KEY, 4, KEY],
    Scanned: [1, [[KEY, 3, 2, 1, b"v"]], KEY, 4],
    Grant: [1, "k", 60],
    Granted: [1, 60],
    Lease: [1, "db", "t", bytes(16), "me", 60, True],
    Leased: [1, 60],
    Used: [[["db", "t"]]],
    Sweep: [
        1,
        "db",
        "t",
        3,
        [["ds=1", 9, 2, 100, 1, 7, 8]],
        ["ds=1"],
        True,
        ["ds=2"],
        9,
        "ds=1",
        False,
        True,
    ],
    Swept: [1, 4, 42, True],
    Synced: [1, 5, 6, 9, [1, 2]],
    NamedFacts: [1, [["a", None], ["b", -1], ["c", 0.5], ["d", True], ["e", "x"]]],
    HubTopics: [1, [[7, "LIVE", 42, 40, None, 900, 64, None, 2, 0]]],
    KeyCuts: [1, [[KEY]]],
    TableUses: [1, [["db.t", 7, 7.5]]],
    SweepPage: [1, [["db.t", 3, 9, 7, 0, "", 0, 2, 4, 900, 1, 7]]],
    DriverFacts: [
        *("d7", "nightly", "app-1", "ann", "node1", 7, "4.1.0", "0.1.0"),
        *("live", "", "on", 2, "ab", 1, 2, 3, 4, 5),
    ],
}
LARGE = h.VALUE_BYTES_MAX + 1
HOSTILE: list[tuple[type, str, Any, str]] = [
    (Hello, "role", 256, "integer from 0 to 255"),
    (Hello, "role", -1, "integer from 0 to 255"),
    (Hello, "role", True, "integer from"),
    (Hello, "role", 1.0, "integer from"),
    (Hello, "name", b"n", "text of at most 4096"),
    (Hello, "name", "n" * (TEXT_MAX + 1), "text of at most 4096"),
    (Hello, "registration", bytes(15), "16 to 16 bytes"),
    (Hello, "registration", bytes(17), "16 to 16 bytes"),
    (Hello, "registration", "r" * 16, "16 to 16 bytes"),
    (Hello, "features", None, "integer from"),
    (Refused, "topic", -2, "integer from -1 to 65535"),
    (Refused, "topic", 65_536, "integer from -1"),
    (Join, "positions", 7, "integer from 0 to 8194"),
    (Join, "positions", [], "integer from 0 to 8194"),
    (Join, "positions", [ROWS_MAX + 1, 1, 2, 5, 3], "integer from 0 to 8194"),
    (Join, "positions", [1, 8, 2, 5], "Position in 4 columns"),
    (Join, "positions", [2, [8, 1], 2, 5, [3]], "columns of 2 values"),
    (Join, "positions", [2, [8], 2, 5, 3], "columns of 2 values"),
    (Join, "positions", [1, 8, 3, 5, 3], "integer from 0 to 2"),
    (Join, "positions", [2, [1, "1"], 2, 5, 3], "integer from -65536 to 65536"),
    (Join, "positions", [1, 65_537, 2, 5, 3], "integer from -65536 to 65536"),
    (Join, "positions", [2, 65_536, 2, 5, 3], "integer from 0 to 65535"),
    (Join, "positions", [2, [8, -9], 2, 5, 3], "integer from 0 to 65535"),
    (Join, "positions", [2, [8, 1], 2, 5, [3, True]], "integer from 0 to"),
    (Join, "positions", [2, [8, 1], 2, 5, [3, -1]], "integer from 0 to"),
    (Join, "positions", [2, [8, 1], [2, 3], 5, 3], "integer from 0 to 2"),
    (Joined, "topics", [1, 8, 2, 0, 3], "TopicState in 5 columns"),
    (Filed, "versions", [[7]], "pairs expected"),
    (Filed, "versions", [7], "pairs expected"),
    (Filed, "versions", [[7, -3]], "integer from"),
    (CatchUp, "wanted", [[7, 2, 5, 3, 2, bytes(KEY_BYTES_MAX + 1), 4]], "0 to 1024 bytes"),
    (Compared, "accepted", 1, "true or false"),
    (Pulled, "entries", [[KEY, 3, 2, 1]], "entry of five or six fields"),
    (Pulled, "entries", [[KEY, 3, 2, 1, b"v", LARGE, 0]], "entry of five or six fields"),
    (Pulled, "entries", [KEY], "entry of five or six fields"),
    (Pulled, "entries", [[KEY, 3, 2, 1, b"v", h.VALUE_BYTES_MAX]], "piece of 1 bytes"),
    (Pulled, "entries", [[KEY, 3, 2, 1, b"", LARGE]], "piece of 0 bytes"),
    (Pulled, "entries", [[KEY, 3, 2, 1, bytes(h.PIECE_BYTES_MAX + 1), LARGE]], "piece of"),
    (Pulled, "entries", [[KEY, 3, 2, 1, b"v", 1 << 40]], "integer from"),
    (Pulled, "entries", [[KEY, 3, 4, 1, b"v"]], "changed after its own version"),
    (Pulled, "entries", [[KEY, 3, 2, 4, b"v"]], "changed after its own version"),
    (Pulled, "entries", [[KEY, "3", 2, 1, b"v"]], "integer from"),
    (Pulled, "entries", [[b"a\0b", 3, 2, 1, b"v"]], "two NULs"),
    (Pulled, "entries", [["a", 3, 2, 1, b"v"]], "0 to 1024 bytes"),
    (Pulled, "entries", [[KEY, 3, 2, 1, None]], "0 to 786432 bytes"),
    (Pull, "selector", 1, "its kind, and what it selects"),
    (Pull, "names_only", 1, "true or false"),
    (Pull, "after", bytes(KEY_BYTES_MAX + 1), "0 to 1024 bytes"),
    (Pulled, "names", "names", "0 to 786432 bytes"),
    (Pulled, "moved", 0, "true or false"),
    (Pulled, "gone", [bytes(KEY_BYTES_MAX + 1)], "0 to 1024 bytes"),
    (NamedFacts, "rows", [["a", b"x"]], "text of at most"),
    (NamedFacts, "rows", [["a", ["x"]]], "text of at most"),
    (NamedFacts, "rows", [7], "pairs expected"),
    (HubTopics, "rows", [7], "HubTopic of 10 fields"),
    (HubTopics, "rows", [[7, "LIVE", 42]], "HubTopic of 10 fields"),
    (HubTopics, "rows", [[-1, "LIVE", 42, 40, 3, 9, 64, 1, 2, 0]], "integer from 0 to 65535"),
    (HubTopics, "rows", [[7, None, 42, 40, 3, 9, 64, 1, 2, 0]], "text of at most"),
    (HubTopics, "rows", [[7, "LIVE", 42, 40, "3", 9, 64, 1, 2, 0]], "integer from 0"),
    (TableUses, "rows", [["db.t", 7, "1"]], "number expected"),
    (TableUses, "rows", [["db.t", 7, True]], "number expected"),
    (KeyCuts, "rows", [[bytes(KEY_BYTES_MAX + 1)]], "0 to 1024 bytes"),
    (DriverFacts, "application", "x" * 501, "text of at most 500"),
    (DriverFacts, "reason", None, "text of at most 500"),
    (DriverFacts, "pid", "seven", "integer from 0 to 4294967296"),
    (DriverFacts, "writes_refused", -1, "integer from 0 to"),
    (DriverFacts, "memory_reads", 1 << 63, "integer from 0 to"),
]


def _frame(cls: type, fields: list[Any]) -> bytes:
    return h.CONTROL_PREFIX + msgpack.packb([SHAPES[cls][0], *fields])


@pytest.mark.parametrize("cls", FIELDS, ids=lambda cls: cls.__name__)
def test_right_fields_are_read_and_written(cls: type) -> None:
    read = decode(_frame(cls, FIELDS[cls]))
    assert type(read) is cls
    assert encode(read) == _frame(cls, FIELDS[cls])


@pytest.mark.parametrize(("cls", "name", "value", "reason"), HOSTILE)
def test_wrong_field_is_refused_by_name(cls: type, name: str, value: Any, reason: str) -> None:
    """P-MSG-3, P-LIM-5, P-LIM-6."""
    names = [field.name for field in dataclasses.fields(cls)]
    fields = list(FIELDS[cls])
    fields[names.index(name)] = value
    with pytest.raises(WireError, match=rf"^{cls.__name__}.{name}: .*{reason}"):
        decode(_frame(cls, fields))


def test_longest_text_is_read() -> None:
    """P-LIM-6."""
    bye = Bye(reason="n" * TEXT_MAX)
    assert decode(encode(bye)) == bye


def test_list_over_the_limit_is_refused() -> None:
    """P-LIM-6."""
    assert decode(_frame(Drop, [1, [0] * LIST_MAX]))
    with pytest.raises(WireError, match="exceeds max_array_len"):
        decode(_frame(Drop, [1, [0] * (LIST_MAX + 1)]))


def test_bytes_are_no_list_of_numbers() -> None:
    """P-LIM-6."""
    with pytest.raises(WireError, match="list of at most"):
        decode(_frame(Drop, [1, b"\x01\x02"]))


def test_entry_that_is_read_has_the_size_of_its_value() -> None:
    pulled = decode(_frame(Pulled, FIELDS[Pulled]))
    assert isinstance(pulled, Pulled)
    assert [entry.size for entry in pulled.entries] == [1]


def test_type_numbers_run_from_one_without_a_hole() -> None:
    """P-MSG-1."""
    assert sorted(NUMBERS) == list(range(1, len(NUMBERS) + 1))


def test_all_topics_at_one_level_are_joined_in_a_few_bytes() -> None:
    requested = Join(
        request=1,
        positions=tuple(Position(topic=t, level=1, epoch=0, version=0) for t in range(256)),
    )
    frame = encode(requested)
    assert len(frame) < 32
    assert decode(frame) == requested


@pytest.mark.parametrize("topics", [(), (0,), (9, 3, 3, 65_534), (255, 0)])
def test_topics_of_any_order_keep_it(topics: tuple[int, ...]) -> None:
    positions = tuple(Position(topic=t, level=2, epoch=5, version=t) for t in topics)
    requested = Join(request=1, positions=positions)
    assert decode(encode(requested)) == requested
