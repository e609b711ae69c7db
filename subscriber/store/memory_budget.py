"""The bytes that a subscriber may hold, by topic and level: held, and reserved.

    committed == sum over accounts of max(held, reserved) <= limit, as far as reservations go

An account is a topic at a level: at minimal what was pulled of it, at full all of it. A catch-up
reserves before it is requested, so that there is room for what is in flight; what goes beyond a
reservation (deltas) is checked before it is installed.
"""

Account = tuple[int, int]  # topic, level


class Budget:
    """Counts bytes; decides nothing."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0  # sum of ``_held``
        self._committed = 0  # bytes; sum over accounts of the larger of held and reserved
        self._held: dict[Account, int] = {}
        self._reserved: dict[Account, int] = {}

    @property
    def free_bytes(self) -> int:
        """What is neither held nor reserved."""
        return self.limit_bytes - self._committed

    def held(self, account: Account) -> int:
        """The bytes held of ``account``."""
        return self._held.get(account, 0)

    def committed(self, account: Account) -> int:
        """The bytes held of ``account``, or reserved for it if that is more."""
        return max(self._held.get(account, 0), self._reserved.get(account, 0))

    def unfilled(self, account: Account) -> int:
        """The reserved bytes of ``account`` that are not held yet."""
        return max(self._reserved.get(account, 0) - self._held.get(account, 0), 0)

    def hold(self, account: Account, growth: int) -> None:
        """Count ``growth`` bytes more, or fewer, as held."""
        self._committed -= self.committed(account)
        self._held[account] = self._held.get(account, 0) + growth
        self.held_bytes += growth
        self._committed += self.committed(account)

    def reserve(self, account: Account, size: int) -> None:
        """Reserve ``size`` bytes for ``account``, what it holds included; 0 ends it."""
        self._committed -= self.committed(account)
        self._reserved[account] = size
        self._committed += self.committed(account)

    def release(self, account: Account) -> None:
        """Discard ``account``: nothing of it is held or reserved."""
        self._committed -= self.committed(account)
        self.held_bytes -= self._held.pop(account, 0)
        self._reserved.pop(account, None)

    def fits(self, account: Account, growth: int) -> bool:
        """Tell whether ``account`` may hold ``growth`` bytes more."""
        more = max(self.held(account) + growth - self.committed(account), 0)
        return growth <= 0 or more <= self.free_bytes

    def largest(self, level: int, *, but: int) -> int | None:
        """Return the topic that has most committed at ``level``, other than ``but``, if any."""
        accounts = {**self._held, **self._reserved}
        sizes = {t: self.committed((t, at)) for t, at in sorted(accounts) if at == level}
        sizes.pop(but, None)
        held = [topic for topic, size in sizes.items() if size]
        return max(held, key=sizes.__getitem__, default=None)

    def check(self) -> None:
        """Assert every invariant."""
        accounts = {**self._held, **self._reserved}
        assert self._committed == sum(map(self.committed, accounts))
        assert self.held_bytes == sum(self._held.values())
        assert all(held >= 0 for held in self._held.values())
        assert self.held_bytes <= self.limit_bytes
