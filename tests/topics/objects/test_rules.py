import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects.encoding.values import pack
from topicast.topics.objects.rules import (
    DRY_RUN,
    EVERY,
    OFF,
    ON,
    PATTERN_CHARS_MAX,
    RULES_MAX,
    STATES,
    Rule,
    decode_rules,
    encode_rules,
    rule_of,
    state_of,
    with_rule,
)

patterns = st.sampled_from([EVERY, "etl-*", "app-1", "?", "web"]) | st.text(min_size=1, max_size=5)
rules = st.builds(Rule, patterns, st.sampled_from(STATES))
names = st.sampled_from(["etl-7", "app-1", "web", "x", "Etl-7"])


def after(*ordered: Rule) -> tuple[Rule, ...]:
    held: tuple[Rule, ...] = ()
    for one in ordered:
        held = with_rule(held, one)
    return held


@given(st.lists(rules, max_size=RULES_MAX))
def test_rules_come_back(held):
    assert decode_rules(encode_rules(held)) == tuple(held)


@given(st.lists(rules, max_size=20), st.lists(names, min_size=1, max_size=2))
def test_newest_rule_that_fits_holds_and_without_a_rule_drivers_are_on(ordered, known):
    wanted = ON
    for one in ordered:
        if state_of([Rule(one.pattern, OFF)], known) == OFF:  # it fits
            wanted = one.state
    assert state_of(after(*ordered), known) == wanted


def test_a_driver_is_known_by_any_of_its_names_in_their_own_case():
    off = [Rule("etl-*", OFF)]
    assert state_of(off, ["nightly", "etl-7"]) == OFF
    assert state_of(off, ["ETL-7"]) == ON
    assert state_of(off, []) == ON


def test_rule_for_the_same_pattern_replaces_the_old_rule_and_is_the_newest():
    held = after(Rule("a", OFF), Rule("b", DRY_RUN), Rule("a", DRY_RUN))
    assert held == (Rule("b", DRY_RUN), Rule("a", DRY_RUN))


def test_rule_for_all_ends_the_other_rules_and_on_for_all_ends_every_rule():
    held = after(Rule("a", OFF), Rule(EVERY, OFF))
    assert held == (Rule(EVERY, OFF),)
    assert with_rule(held, Rule("canary", ON)) == (Rule(EVERY, OFF), Rule("canary", ON))
    assert with_rule(held, Rule(EVERY, ON)) == ()


def test_on_without_an_older_rule_says_nothing():
    assert after(Rule("a", OFF), Rule("b", ON), Rule("a", ON)) == ()


def test_rules_are_bounded():
    """P-RULES-2."""
    held = after(*(Rule(f"a{number}", OFF) for number in range(RULES_MAX)))
    with pytest.raises(UsageError, match="64 rules hold already"):
        with_rule(held, Rule("b", OFF))
    assert len(with_rule(held, Rule("a0", DRY_RUN))) == RULES_MAX
    assert decode_rules(encode_rules(held)) == held
    most = [Rule("\U0001f600" * PATTERN_CHARS_MAX, OFF)] * RULES_MAX
    assert len(encode_rules(most)) < 65536, "one delta"


@pytest.mark.parametrize("state", ["", "maybe", "OFF"])
def test_state_that_is_none_is_refused(state):
    with pytest.raises(UsageError, match="off, dry-run, on"):
        rule_of(state)


@pytest.mark.parametrize("pattern", ["", "x" * (PATTERN_CHARS_MAX + 1)])
def test_pattern_that_is_empty_or_too_long_is_refused(pattern):
    with pytest.raises(UsageError, match="1 to 200 characters"):
        rule_of(OFF, pattern)
    assert rule_of(OFF, "x" * PATTERN_CHARS_MAX).state == OFF
    assert rule_of(OFF) == Rule(EVERY, OFF)


@pytest.mark.parametrize(
    "document",
    [
        [],
        [["a"]],
        [["a"], []],
        [["a"], ["maybe"]],
        [[1], [OFF]],
        [["a"], [1]],
        [["a"], [[]]],
        ["a", OFF],
        [["a"] * (RULES_MAX + 1), [OFF] * (RULES_MAX + 1)],
        {},
    ],
)
def test_bytes_that_are_no_rules_are_refused(document):
    with pytest.raises(WireError):
        decode_rules(pack(document))


@given(st.binary(max_size=40))
def test_any_bytes_end_in_rules_or_in_a_refusal(value):
    with contextlib.suppress(WireError):
        assert encode_rules(decode_rules(value))
