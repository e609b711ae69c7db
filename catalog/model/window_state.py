"""WindowState: up to which event a catalogd is complete, as its store keeps it.

an optional UUID │ optional events ahead │ last id, stable id │ the events known
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from ...topics.errors import WireError

KNOWN_MAX: Final = 16  # events: ids alone can agree by chance, digests of one event cannot
KnownEvent = tuple[int, bytes]  # id and digest

_IDS: Final = Struct(">qq")
_KNOWN: Final = Struct(">q16s")
_HEAD: Final = Struct(">qB")  # a mark, which no id is, and how much follows:
_UUID: Final = -1  # the bytes of the UUID
_AHEAD: Final = -2  # events
UUID_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """A window as the store keeps it, so that a restart neither loses nor repeats an event."""

    last_id: int  # the largest id that was read
    stable_id: int  # ids up to this id are not read again
    known: tuple[KnownEvent, ...] = ()  # the events above ``stable_id``, and the last events below
    uuid: str = ""  # of the metastore; empty: it has none
    ahead: tuple[KnownEvent, ...] = ()
    """The last events that were read after these, KNOWN_MAX at most. They are read again as new;
    what is held may show their effect all the same, so they tell one metastore from another."""


def pack_state(state: WindowState | None) -> bytes:
    """Return ``state`` as a store keeps it: 16 bytes, and 24 for each event known.

    They follow the UUID and the events ahead, if there are any, each of which 9 bytes announce.
    """
    if state is None:
        return b""
    uuid = state.uuid.encode()[:UUID_BYTES_MAX]
    head = _HEAD.pack(_UUID, len(uuid)) + uuid if uuid else b""
    ahead = _pack_events(state.ahead[-KNOWN_MAX:])
    head += _HEAD.pack(_AHEAD, len(ahead) // _KNOWN.size) + ahead if ahead else b""
    return head + _IDS.pack(state.last_id, state.stable_id) + _pack_events(state.known)


def unpack_state(data: bytes) -> WindowState | None:
    """Read what ``pack_state`` wrote.

    Raises:
        WireError: it is damaged.
    """
    if not data:
        return None
    try:
        uuid, rest = _split(data, _UUID, 1)
        ahead, rest = _split(rest, _AHEAD, _KNOWN.size)
        last_id, stable_id = _IDS.unpack_from(rest)
        return WindowState(
            last_id=last_id,
            stable_id=stable_id,
            known=tuple(_KNOWN.iter_unpack(rest[_IDS.size :])),
            uuid=uuid.decode(),
            ahead=tuple(_KNOWN.iter_unpack(ahead)),
        )
    except (error, UnicodeDecodeError) as exc:
        raise WireError("state of the event window is damaged") from exc


def _pack_events(events: Iterable[KnownEvent]) -> bytes:
    return b"".join(_KNOWN.pack(id_, digest) for id_, digest in events)


def _split(data: bytes, mark: int, size: int) -> tuple[bytes, bytes]:
    """Return what ``mark`` announces at the start of ``data``, and the rest.

    It is a number of things of ``size`` bytes each; nothing if there is no such mark.
    """
    found, count = _HEAD.unpack_from(data)
    if found != mark:
        return b"", data
    end = _HEAD.size + count * size
    return data[_HEAD.size : end], data[end:]
