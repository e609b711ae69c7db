"""Verdicts: of each query that ran beside writes, whether it may have found what it found.

FRESH     the number that was newest when it began, or a newer number
OLD       an older number; ``late_s``: since the first write that it missed had returned
CROSSED   files, or all rows, were missing, and the write that removed them ran beside it: it
          had listed files that vanished, or listed between the old files and the new files
WRONG     they were missing, and the write had returned, and so was reported, before it began
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from topicast.tests.spark.soaking import Note

FRESH, OLD, CROSSED, WRONG = "fresh", "old", "crossed", "wrong"
KINDS: Final = (FRESH, OLD, CROSSED, WRONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a query was."""

    kind: str
    object: str
    found: str = ""
    late_s: float = 0.0


def judge(writes: Iterable[Note], reads: Iterable[Note]) -> list[Verdict]:
    """Return a verdict for each of ``reads``; the writes of an object follow one another."""
    of: dict[str, list[Note]] = defaultdict(list)
    for write in writes:
        of[write.object].append(write)
    return [_judge(of[read.object], read) for read in reads]


def _judge(writes: Sequence[Note], read: Note) -> Verdict:
    if read.number is not None:
        return _aged(writes, read, read.number)
    removers = [after for before, after in pairwise(writes) if _removed(before, after, read)]
    suspects = removers or [write for write in writes if write.removes]
    found = f"{read.error or 'no row'}{', of files that are known' if removers else ''}"
    if any(write.begin <= read.end and read.begin <= write.end for write in suspects):
        return Verdict(kind=CROSSED, object=read.object, found=found)
    late_s = min((read.begin - one.end for one in suspects if one.end < read.begin), default=0.0)
    return Verdict(kind=WRONG, object=read.object, found=found, late_s=late_s)


def _aged(writes: Sequence[Note], read: Note, number: int) -> Verdict:
    found = f"number {number}"
    if not any(one.number == number and one.begin <= read.end for one in writes):
        return Verdict(kind=WRONG, object=read.object, found=f"{found}, which is of later")
    missed = [one for one in writes if (one.number or 0) > number and one.end <= read.begin]
    if not missed:
        return Verdict(kind=FRESH, object=read.object)
    late_s = read.begin - missed[0].end
    return Verdict(kind=OLD, object=read.object, found=found, late_s=late_s)


def _removed(before: Note, after: Note, read: Note) -> bool:
    """Tell whether ``after`` removed a file that ``read`` missed."""
    gone = {*before.files} - {*after.files}
    return not gone.isdisjoint(read.files)


def shown(verdicts: Sequence[Verdict]) -> str:
    """Return a table: how many of each kind, by object, and what was found."""
    counts = Counter((one.object, one.kind) for one in verdicts)
    lines = ["object      " + "".join(f"{kind:>9}" for kind in KINDS)]
    counts.update(("all", one.kind) for one in verdicts)
    for name in [*sorted({one.object for one in verdicts}), "all"]:
        lines.append(f"{name:12}" + "".join(f"{counts[name, kind]:9}" for kind in KINDS))
    oldest = max((one.late_s for one in verdicts if one.kind == OLD), default=0.0)
    lines.append(f"old by at most {oldest:.3f} s")
    found = Counter((one.kind, one.found) for one in verdicts if one.kind in {CROSSED, WRONG})
    lines += [f"{count:5} {kind}: {what}" for (kind, what), count in sorted(found.items())]
    lines += [f"{one}" for one in verdicts if one.kind == WRONG]
    return "\n".join(lines)
