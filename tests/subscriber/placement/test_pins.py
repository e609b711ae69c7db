"""Pinned tables: the rules name them, and they are found in the namespace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.placement import pins as module
from topicast.subscriber.placement.pins import PinRules, Pins
from topicast.subscriber.store.view import View, prepare
from topicast.topics.objects.encoding.values import NameRecord, encode_names
from topicast.topics.objects.names import names_key, parse_table_key, rules_key, table_key
from topicast.topics.objects.rules import OFF, Rule, encode_rules
from topicast.topics.topic import NAMESPACE, Entry, tombstone

PATTERNS = ("finance.*", "sales.orders"), ("finance.tmp_*", "*.x[12]", "tmp_?.*")


@pytest.mark.parametrize(
    ("steps", "name", "verdict"),
    [
        ("", "finance.anything", "pinned"),
        ("", "sales.orders", "pinned"),
        ("", "sales.orders2", ""),
        ("", "sales.x2", "banned"),
        ("", "sales.x3", ""),
        ("", "tmp_1.a", "banned"),
        ("", "tmp_12.a", ""),
        ("", "finance.tmp_1", "banned"),
        ("pin", "finance.tmp_1", "pinned"),
        ("pin unpin", "finance.tmp_1", "banned"),
        ("pin", "sales.orders2", "pinned"),
        ("pin unpin", "sales.orders2", ""),
        ("unpin", "sales.orders", ""),
        ("unpin pin", "sales.orders", "pinned"),
    ],
)
def test_first_rule_that_names_a_table_counts(steps: str, name: str, verdict: str) -> None:
    rules = PinRules(*PATTERNS)
    db, table = name.split(".")
    rules.banned(table_key(db, table))  # as it is before the steps
    for step in steps.split():
        getattr(rules, step)(db, table)
    assert rules.pinned(db, table) is (verdict == "pinned")
    assert rules.banned(table_key(db, table)) is (verdict == "banned")


def test_pins_by_name_alone_are_pins_until_the_last_is_gone() -> None:
    rules = PinRules()
    assert not rules.banned(table_key("a", "b"))
    found = [rules.has_pins]
    for step in (rules.pin, rules.unpin):
        step("a", "b")
        found.append(rules.has_pins)
    assert found == [False, True, False]
    assert [PinRules(never=patterns).has_bans for patterns in ((), ("a.b",))] == [False, True]


class Namespace:
    """A namespace of blocks of three names, and pins that follow its changes."""

    def __init__(self, *patterns: str) -> None:
        self.view = View(4)
        self.pins = Pins(PinRules(patterns), self.view)
        self._blocks: dict[bytes, bytes] = {}
        self._names: set[str] = set()
        self._version = 0

    def create(self, *names: str) -> None:
        self._names.update(names)
        self._publish()

    def drop(self, *names: str) -> None:
        self._names.difference_update(names)
        self._publish()

    def apply(self, *entries: Entry) -> None:
        """Apply entries of the namespace."""
        place = self.view.topics[NAMESPACE]
        swaps, growth = prepare(place, entries)
        self.view.install(place, swaps, growth)
        self.pins.on_names_changed(swaps)

    def scan(self) -> list[str]:
        """Scan all that waits; return what is pinned."""
        while self.pins.scanning:
            self.pins.scan()
            self.pins.check()
        return sorted(map(_name, self.pins.known))

    def _publish(self) -> None:
        self._version += 1
        names, blocks = sorted(self._names), {}
        for at in range(0, len(names), 3):
            records = [NameRecord(name, "MANAGED_TABLE", 1, 1) for name in names[at : at + 3]]
            blocks[names_key("db", names[at] if at else "")] = encode_names(records)
        gone = [tombstone(key, self._version) for key in self._blocks.keys() - blocks.keys()]
        changed = [
            Entry(key, self._version, self._version, self._version, len(value), value)
            for key, value in blocks.items()
            if self._blocks.get(key) != value
        ]
        self._blocks = blocks
        self.apply(*sorted(gone + changed))


def _name(group: bytes) -> str:
    return parse_table_key(group).table


def test_tables_that_match_are_pinned_when_created_and_removed_when_dropped() -> None:
    names = Namespace("db.a*", "other.*")
    names.create("a1", "b1", "a2")
    assert names.scan() == ["a1", "a2"]
    assert list(map(_name, names.pins.take_new())) == ["a1", "a2"]
    names.create("a3", "a0", "c")  # the blocks of three begin elsewhere
    assert names.scan() == ["a0", "a1", "a2", "a3"]
    assert sorted(map(_name, names.pins.take_new())) == ["a0", "a3"]
    names.drop("a1", "c")
    assert names.scan() == ["a0", "a2", "a3"]
    assert [_name(group) for _, group in names.pins.take_moved()] == ["a1", "a2", "a0", "a3", "a1"]


def test_rules_for_drivers_are_no_names() -> None:
    """P-RULES-1."""
    names = Namespace("*.*")
    value = encode_rules((Rule("a", OFF),))
    names.apply(Entry(rules_key(), 1, 1, 1, len(value), value))
    assert not names.pins.scanning


def test_scan_takes_a_few_blocks_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN_MAX", 2)
    names = Namespace("*.*")
    names.create(*(f"t{number:02}" for number in range(30)))
    names.pins.scan()
    assert len(names.pins.known) == 6  # two blocks of three
    assert names.pins.scanning
    assert len(names.scan()) == 30


def test_no_pin_means_no_scan() -> None:
    names = Namespace()
    names.create("a")
    assert not names.pins.scanning


def test_table_that_is_unpinned_is_removed_and_not_found_again() -> None:
    names = Namespace("db.*")
    names.create("a", "b")
    names.scan()
    names.pins.mark_not_held(table_key("db", "a"), 10)
    names.pins.unpin("db", "a")
    assert names.pins.not_held_count == 0
    names.create("c")
    assert names.scan() == ["b", "c"]


def test_tables_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PINS_MAX", 2)
    names = Namespace("db.*")
    names.create("a", "b", "c")
    names.scan()
    assert (names.pins.count, names.pins.not_held_count) == (3, 1)
    names.pins.on_names_discarded()
    assert (names.pins.count, names.pins.not_held_count) == (0, 0)


def test_missing_bytes_are_those_that_fit_beside_what_is_held() -> None:
    names = Namespace("db.*")
    names.create("a", "b", "c", "d")
    names.scan()
    pins = names.pins.known
    for size, pin in zip((200, 100, 300, 50), pins.values(), strict=True):
        pin.size = size
    held = {(pin.topic, group): 50 for group, pin in pins.items() if pin.size in (100, 50)}
    assert names.pins.needed_bytes == 650
    assert names.pins.missing_bytes(held, room=400).total() == 200 + 50
    assert names.pins.missing_bytes(held, room=1000).total() == 200 + 50 + 300
    assert names.pins.missing_bytes({}, room=170).total() == 100, "its topic takes some bytes, too"
    assert names.pins.missing_bytes({}, room=5000).total() == 650


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([f"{a}{n}" for a in "ab" for n in range(6)])),
        max_size=25,
    ),
    st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_known_tables_are_those_that_exist_and_match(
    steps: list[tuple[bool, str]], scans: list[bool]
) -> None:
    names = Namespace("db.a?")
    exists: set[str] = set()
    for (create, name), scan in zip(steps, scans, strict=False):
        if create and name not in exists:
            names.create(name)
            exists.add(name)
        elif not create and name in exists:
            names.drop(name)
            exists.remove(name)
        if scan:
            names.pins.scan()
    assert names.scan() == sorted(name for name in exists if name.startswith("a"))
