"""A group that imports a command when it is used: to import all commands takes 0.7 s."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Knows its commands by name, imports a command to run it; click's ``--help`` imports all."""

    def __init__(self, *args: Any, places: Mapping[str, str], **more: Any) -> None:
        """``places``: by the name of a command, its module in ``cli`` and its function there."""
        super().__init__(*args, **more)
        self.places = places

    def load(self, name: str) -> click.Command:
        """Return a command; KeyError: there is none of this name."""
        module, function = self.places[name].split(":")
        found = getattr(import_module(f"{__package__}.{module}"), function)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` begins with, as click does; an error names the nearest.

        click itself looks only at commands that are imported.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.places, n=1)
            if not near or args[0].startswith("-"):
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Return all names, sorted."""
        return sorted(self.places)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - likewise
        name: str,
    ) -> click.Command | None:
        """Return a command; None: there is none of this name."""
        return self.load(name) if name in self.places else None


def subcommands(group: click.Group) -> dict[str, click.Command]:
    """Import and return every command of a group by its name, sorted."""
    context = click.Context(group)
    names = group.list_commands(context)
    return {name: found for name in names if (found := group.get_command(context, name))}
