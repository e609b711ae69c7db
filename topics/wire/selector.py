"""The selector of a Pull: from the message's fields and back, in the bytes that it always had."""

from typing import Final

from ..errors import UsageError
from ..objects.selector import ALL, Selector, SelectorKind, by_filter
from .fields import TEXT_MAX
from .messages import Pull

NAMES_BYTES_MAX: Final = 256 << 10  # of the partitions that one pull names, in characters


def sendable(selector: Selector) -> Selector:
    """Return ``selector``, or ALL if it is too long for a message."""
    names = selector.names + selector.values
    longest = max(map(len, (*names, selector.filter)))
    fits = longest <= TEXT_MAX and sum(map(len, names)) + 3 * len(names) <= NAMES_BYTES_MAX
    return selector if fits else ALL


def selector_of(pull: Pull) -> Selector:
    """Return what ``pull`` selects.

    Raises:
        UsageError: its selector is none that is known here, or its filter is none.
    """
    if pull.selector == SelectorKind.FILTER:
        return by_filter(pull.filter)
    try:
        kind = SelectorKind(pull.selector)
    except ValueError:
        raise UsageError(f"no selector {pull.selector}") from None
    return Selector(kind, names=tuple(sorted(set(pull.names))), values=pull.values)
