"""Drivers: what each attached driver last announced of itself, kept for an hour after its end.

    announced ──▶ connecting | live | plain ──no member any more──▶ gone ──GONE_LISTED_S──▶ unlisted
                          ▲                                          │
                          └────────── announced, or heard of ────────┘

A driver has one record, by the id that it gives itself, even if it connects many times. A driver
that leaves while it is connecting or plain is expected back: it counts as gone only after AWAY_S.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...topics.clock import Clock
from ...topics.keys.clients import Client
from ...topics.liveness import LOST
from ...topics.objects.drivers import (
    ANNOUNCED,
    CONNECTING,
    COUNTS,
    GONE,
    PLAIN,
)
from ...topics.wire.messages.readers import DriverFacts
from .membership import Member, Membership

GONE_LISTED_S: Final = 3600.0  # after its end: time for an operator to ask what became of it
AWAY_S: Final = 60.0  # between two registrations: drivers try again after at most 30 s, and wait 10
SETTLE_S: Final = 1.0  # between two looks at all of them
GONE_MAX: Final = 4096  # drivers that are not there, as many as members; the latest are kept
GONE_CHARS_MAX: Final = 4 << 20  # of their texts: 1 KB each, and most have half of that
SILENT: Final = "it went silent: it was killed, or its hub does not reach it"
LEFT: Final = "it has left: it was detached, or has ended"

_DriverId = tuple[str, str]  # the public key of its client, and the id that it gives itself


@dataclass(slots=True)
class AnnouncedDriver:
    """One driver. ``gone_at`` None: it is there, or comes back."""

    said: DriverFacts  # its last announcement
    client: Client  # the owner of the key that the driver joined with
    registration: bytes  # its last registration
    since: float  # seconds: when its state became what it is
    left_at: float | None = None  # seconds: when its member was missed first
    gone_at: float | None = None
    ended: str = ""  # why it is gone

    @property
    def state(self) -> str:
        """The state of the driver: the last that it has announced, or gone."""
        return GONE if self.gone_at is not None else self.said.state

    @property
    def reason(self) -> str:
        """Why it is that; empty if there is nothing to explain."""
        return self.ended if self.gone_at is not None else self.said.reason

    @property
    def chars(self) -> int:
        """The characters of what it announced."""
        return sum(len(str(getattr(self.said, name))) for name in ANNOUNCED)


class Drivers:
    """The drivers of one hub."""

    def __init__(self, membership: Membership, clock: Clock) -> None:
        self._clock = clock
        self._membership = membership
        self._drivers: dict[_DriverId, AnnouncedDriver] = {}  # the last to go last
        self._of: dict[bytes, _DriverId] = {}  # the driver that each member announced last
        self._settle_at = 0.0  # seconds
        self.counts = Counter(dict.fromkeys(COUNTS, 0))  # as far as they were announced here

    def __iter__(self) -> Iterator[AnnouncedDriver]:
        return iter(self._drivers.values())

    def announce(self, member: Member, said: DriverFacts) -> None:
        """Take what the driver behind ``member`` says of itself."""
        now = self._clock.now
        key = member.client.public, said.driver or member.registration.hex()
        if self._of.setdefault(member.registration, key) != key:
            return  # a process is one driver
        found = self._drivers.get(key)
        if found is None:
            self._drivers[key] = AnnouncedDriver(said, member.client, member.registration, now)
            return
        for name in COUNTS:  # another agent of the driver begins at 0
            count, before = getattr(said, name), getattr(found.said, name)
            self.counts[name] += count - before if count >= before else count
        if found.gone_at is not None or found.said.state != said.state:
            found.since = now
        self._of.pop(found.registration, None)
        self._of[member.registration] = key
        found.said, found.registration = said, member.registration
        found.client = member.client
        found.left_at = found.gone_at = None

    def settle(self, *, at_once: bool = False) -> None:
        """Note who is gone, and who is there again; discard what is too old, or too much."""
        now = self._clock.now
        if not at_once and now < self._settle_at:
            return
        self._settle_at = now + SETTLE_S
        for key, one in [*self._drivers.items()]:
            member = self._membership.get(one.registration)
            if member is not None and member.state != LOST:
                one.since = one.since if one.gone_at is None else now
                one.left_at = one.gone_at = None
            elif one.gone_at is not None:
                if now >= one.gone_at + GONE_LISTED_S:
                    self._discard(key)
            elif self._is_over(one, member):
                one.since = one.gone_at = now
                one.ended = LEFT if member is None else SILENT
                self._drivers[key] = self._drivers.pop(key)
        self._bound()

    def check(self) -> None:
        """Assert every invariant."""
        left = [one for one in self if _is_away(one)]
        assert len(left) <= GONE_MAX
        assert sum(one.chars for one in left) <= GONE_CHARS_MAX
        assert self._of == {one.registration: key for key, one in self._drivers.items()}

    def _is_over(self, one: AnnouncedDriver, member: Member | None) -> bool:
        """Return whether a driver without a member that is alive is gone."""
        if member is not None:
            return True  # it is LOST
        now = self._clock.now
        one.left_at = now if one.left_at is None else one.left_at
        comes_back = one.said.state in (CONNECTING, PLAIN)
        return not comes_back or now >= one.left_at + AWAY_S

    def _bound(self) -> None:
        """Discard the first to go of those that are not there, if they are too many or too long."""
        gone = [key for key, one in self._drivers.items() if _is_away(one)]
        chars = sum(self._drivers[key].chars for key in gone)
        for left, key in zip(range(len(gone), 0, -1), gone, strict=True):
            if left <= GONE_MAX and chars <= GONE_CHARS_MAX:
                return
            chars -= self._drivers[key].chars
            self._discard(key)

    def _discard(self, key: _DriverId) -> None:
        del self._of[self._drivers.pop(key).registration]


def _is_away(one: AnnouncedDriver) -> bool:
    return one.left_at is not None or one.gone_at is not None
