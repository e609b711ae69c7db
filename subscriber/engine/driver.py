"""Driver: what passes between operators and the application whose driver this is.

topicast drivers off ──▶ rules, by application ──▶ wanted     told ──▶ topicast drivers
"""

from collections.abc import Callable, Mapping

from ...topics.objects.rules import state_of
from ..store.view import View

Facts = Mapping[str, str | int | float | bool | None]


class Driver:
    """Any thread asks it what is wanted; what it tells is asked for by the background thread."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._facts: Callable[[], Facts] | None = None

    def wanted(self, *names: str) -> str:
        """Return what operators want a driver that has all these names to be: on, off or dry-run.

        It is as the last push said, or on; it waits for nothing.

        Cost: 1 µs, and 1 µs for each rule; nobody needs to be told that it differs.
        """
        return state_of(self._view.rules(), names)

    def tells(self, facts: Callable[[], Facts]) -> None:
        """Let operators see what ``facts`` returns; it must neither wait nor raise."""
        self._facts = facts

    def facts(self) -> Facts | None:
        """Return what operators are to see; None: there is no application that told."""
        return self._facts() if self._facts is not None else None
