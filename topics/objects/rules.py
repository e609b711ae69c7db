"""Rules: the state that operators set for drivers, by application; the newest that fits holds.

    rules     pack([[pattern, …], [state, …]])      newest last

off: plain Spark. dry-run: only count what would be refreshed. on: what holds without a rule.
Patterns are those of the shell, matched with the names that a driver has. ``decode_rules`` is
total: bytes in, rules or WireError out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import dropwhile
from typing import Final

from ..errors import UsageError, WireError
from .encoding.values import pack, unpack

OFF: Final = "off"
DRY_RUN: Final = "dry-run"
ON: Final = "on"
STATES: Final = (OFF, DRY_RUN, ON)  # from plain Spark to all of Topicast
EVERY: Final = "*"

RULES_MAX: Final = 64  # each is matched with every driver; with the texts below a delta holds them
PATTERN_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """Drivers whose name matches ``pattern`` are to be ``state``."""

    pattern: str
    state: str


def rule_of(state: str, pattern: str = EVERY) -> Rule:
    """Return the rule that an operator wrote.

    Raises:
        UsageError: there is no such state, or the pattern is empty or too long.
    """
    if state not in STATES:
        raise UsageError(f"drivers cannot be {state!r}: {', '.join(STATES)}")
    if not 0 < len(pattern) <= PATTERN_CHARS_MAX:
        limit = f"1 to {PATTERN_CHARS_MAX} characters"
        raise UsageError(f"a pattern of {len(pattern)} characters: {limit}, as 'etl-*'")
    return Rule(pattern, state)


def with_rule(rules: Sequence[Rule], rule: Rule) -> tuple[Rule, ...]:
    """Return the rules that hold once ``rule`` is the newest; those that say nothing are left out.

    Raises:
        UsageError: they are too many.
    """
    older = [one for one in rules if one.pattern != rule.pattern and rule.pattern != EVERY]
    found = tuple(dropwhile(lambda one: one.state == ON, [*older, rule]))
    if len(found) > RULES_MAX:
        raise UsageError(f"{RULES_MAX} rules hold already: a rule for all drivers ends the others")
    return found


def state_of(rules: Sequence[Rule], names: Iterable[str]) -> str:
    """Return what a driver that has all of ``names`` is to be."""
    known = tuple(names)
    for rule in reversed(rules):
        if any(fnmatchcase(name, rule.pattern) for name in known):
            return rule.state
    return ON


def encode_rules(rules: Sequence[Rule]) -> bytes:
    """Return the bytes of the entry that holds ``rules``."""
    assert len(rules) <= RULES_MAX
    return pack([[rule.pattern for rule in rules], [rule.state for rule in rules]])


def decode_rules(value: bytes) -> tuple[Rule, ...]:
    """Read the rules.

    Raises:
        WireError: ``value`` holds none, or a state that is not known here.
    """
    match unpack(value):
        case [list(patterns), list(states)] if len(patterns) == len(states) <= RULES_MAX:
            texts = all(type(pattern) is str for pattern in patterns)
            if texts and all(state in STATES for state in states):
                return tuple(map(Rule, patterns, states))
    raise WireError("value is not that of rules")
