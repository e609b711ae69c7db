"""What passes between operators and the application whose driver this is.

topicast drivers off ──▶ rules, by application ──▶ wanted     facts ──▶ topicast drivers
"""

from collections.abc import Callable, Mapping

from ...topics.objects.rules import state_of
from ..store.view import View

Facts = Mapping[str, str | int | float | bool | None]


class Driver:
    """Any thread reads what is wanted; the background thread reads the application's facts."""

    def __init__(self, view: View, facts: Callable[[], Facts] | None = None) -> None:
        """``facts`` returns what operators see of the application; it neither waits nor raises."""
        self._view = view
        self._facts = facts

    def wanted(self, *names: str) -> str:
        """Return what operators want a driver that has all these names to be: on, off or dry-run.

        It is as in the last push, or on; it waits for nothing.

        Cost: 1 µs, and 1 µs for each rule, so that it can be read again and again.
        """
        return state_of(self._view.rules(), names)

    def facts(self) -> Facts | None:
        """Return what operators see; None: this process is no driver."""
        return self._facts() if self._facts is not None else None
