"""Policy: the databases that a key may see, and the names and entries filtered for it.

    topicast keys add NAME --role driver --databases 'sales,finance_*'

A policy cuts by names and keys alone, so a value is never decoded. Two clients with the same
patterns have one policy.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from .errors import ConfigError
from .objects.encoding.values import encode_problem
from .objects.names import group_of, problem_key, rules_key
from .objects.source_problem import ProblemKind, SourceProblem
from .topic import NAMESPACE, Entry

TEXT_MAX: Final = 1024  # characters of the patterns of one key
PROBLEM: Final = "changes of the metastore may not arrive; operators see why: topicast status"
"""The text for clients with a policy; the metastore's own problem may name tables."""

_PATTERN: Final = re.compile(r"[a-z0-9_*-]+", re.ASCII)
_PROBLEM_KEY: Final = problem_key()
_PROBLEM_VALUE: Final = encode_problem(SourceProblem(ProblemKind.WITHHELD, PROBLEM))
_COMMON: Final = frozenset({_PROBLEM_KEY, rules_key()})  # groups that every client may see
_OF_DATABASES: Final = (b"d", b"n")  # how the groups of a database begin


@dataclass(frozen=True)
class Policy:
    """A set of databases, as sorted patterns in which ``*`` stands for any characters."""

    patterns: tuple[str, ...]
    _matches: Callable[[str], object] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        either = "|".join(re.escape(one).replace(r"\*", ".*") for one in self.patterns)
        object.__setattr__(self, "_matches", re.compile(either, re.DOTALL).fullmatch)

    def __str__(self) -> str:
        return ",".join(self.patterns)

    @property
    def digest(self) -> int:
        """A number of 32 bits, never 0, that distinguishes it from other policies."""
        return crc32(str(self).encode()) or 1

    def sees(self, db: str) -> bool:
        """Return whether the database ``db`` may be seen, be it there or not."""
        return self._matches(db) is not None

    def refusal(self, name: str) -> str:
        """Return the text of the refusal of a request for ``name``, which may not be seen."""
        return f"{name} is not visible to this key, which sees {self}"

    def sees_group(self, topic: int, group: bytes) -> bool:
        """Return whether the entries of ``group`` in ``topic`` may be seen."""
        first, second, _ = group.split(b"\0", 2)
        if topic != NAMESPACE:
            return self.sees(first.decode(errors="replace"))
        return group in _COMMON or (
            first in _OF_DATABASES and self.sees(second.decode(errors="replace"))
        )

    def cut(self, topic: int, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """Return those of ``entries`` that may be seen, in their order."""
        return tuple(
            _without_reason(entry) if entry.key == _PROBLEM_KEY else entry
            for entry in entries
            if self.sees_group(topic, group_of(entry.key))
        )


def parse_policy(text: str, *, setting: str) -> Policy:
    """Return the policy that ``text`` holds, patterns with commas between them.

    Raises:
        ConfigError: ``text`` is too long, or a pattern is empty or has a character that no name of
            a database has. The error names ``setting``.
    """
    patterns = tuple(sorted({one.strip().lower() for one in text.split(",")}))
    if len(text) > TEXT_MAX or not all(map(_PATTERN.fullmatch, patterns)):
        allowed = f"databases as sales,finance_* with at most {TEXT_MAX} characters"
        raise ConfigError(setting, text[:TEXT_MAX], allowed)
    return Policy(patterns)


def _without_reason(entry: Entry) -> Entry:
    if entry.value is None:
        return entry
    return entry._replace(value=_PROBLEM_VALUE, size=len(_PROBLEM_VALUE))
