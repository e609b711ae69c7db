"""Light: messages of many partitions without the objects in them, before a turn decodes them.

    {…, "partitions": [{"ds": "1"}, …], "partitionListJson": ["{…}", …]}  ──▶  {…, …: null}

If an event is larger than all that one poll may apply in place, catalogd reads its partitions again
from the metastore, so that their names are enough. Nearly all bytes of such a message are objects:
the thread that reads events skips them string by string, and turns go on meanwhile. To decode
100 MB would stop turns for a second even in that thread, because json runs no other thread of
Python until it is done.
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
"""Events that name their partitions beside the objects."""

_LIST: Final = re.compile(r'"partitionListJson"\s*:\s*(?=\[)')
_ITEM: Final = re.compile(r'[\[,]\s*"[^"\\]*(?:\\.[^"\\]*)*"\s*', re.DOTALL)


def lightened(events: Iterable[RawEvent]) -> tuple[RawEvent, ...]:
    """Return ``events``, large events without the objects of their partitions.

    An event whose message has another form is left as it is.
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
    """Return ``text`` with nothing in the place of the objects; None: it has no such list."""
    begins = _LIST.search(text)
    if begins is None:
        return None
    at = begins.end()
    while item := _ITEM.match(text, at):
        at = item.end()
    if text[at : at + 1] != "]":
        return None
    return f"{text[: begins.end()]}null{text[at + 1 :]}"
