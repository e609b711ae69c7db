"""Light: removes the objects from messages of many partitions, before a turn decodes them.

    {…, "partitions": [{"ds": "1"}, …], "partitionListJson": ["{…}", …]}  ──▶  {…, …: null}

If an event is larger than all that one poll may apply in place, catalogd reads its partitions again
from the metastore, so that it needs only their names. Nearly all bytes of the message are objects.
The thread that reads events skips these string by string, so that turns go on meanwhile. If that
thread decoded 100 MB, turns would stop for a second: json lets no other thread run until it ends.
"""

import re
from collections.abc import Iterable
from typing import Final

from ....topics.errors import WireError
from ...metastore.port import RawEvent
from ..events.actions import GZIP_FORMATS, JSON_FORMATS, text_of
from .in_place import SAID_BYTES_MAX

PACKED_CHARS_MIN: Final = SAID_BYTES_MAX >> 7  # gzip makes one byte of 30 to 60 of such messages
TYPES: Final = frozenset({"ADD_PARTITION", "ALTER_PARTITIONS"})
"""Events that have the names of their partitions beside the objects."""

_LIST: Final = re.compile(r'"partitionListJson"\s*:\s*(?=\[)')
_ITEM: Final = re.compile(r'[\[,]\s*"[^"\\]*(?:\\.[^"\\]*)*"\s*', re.DOTALL)


def lightened(events: Iterable[RawEvent]) -> tuple[RawEvent, ...]:
    """Return ``events``, the large ones without the objects of their partitions.

    An event whose message has another form stays as it is.
    """
    return tuple(map(_lightened, events))


def _lightened(event: RawEvent) -> RawEvent:
    if event.type not in TYPES:
        return event
    if event.message_format in JSON_FORMATS:
        large = len(event.message) > SAID_BYTES_MAX
    else:
        large = event.message_format in GZIP_FORMATS and len(event.message) > PACKED_CHARS_MIN
    if not large:
        return event
    try:
        found = text_of(event)
        text = found if isinstance(found, str) else found.decode()
    except (WireError, UnicodeDecodeError):
        return event
    light = _without_objects(text) if len(text) > SAID_BYTES_MAX else None
    return event if light is None else event.with_message(light, JSON_FORMATS[-1])


def _without_objects(text: str) -> str | None:
    """Return ``text`` with null in place of the list of objects; None: it has no such list."""
    begins = _LIST.search(text)
    if begins is None:
        return None
    at = begins.end()
    while item := _ITEM.match(text, at):
        at = item.end()
    if text[at : at + 1] != "]":
        return None
    return f"{text[: begins.end()]}null{text[at + 1 :]}"
