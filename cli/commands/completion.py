"""The command that prints what a shell needs to complete our commands and options."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from ...topics.errors import UsageError
from ..options.flags import command

PROGRAM: Final = "topicast"
VARIABLE: Final = "_TOPICAST_COMPLETE"  # with it the shell asks this program what to offer
SHELLS: Final = ("bash", "zsh", "fish")


@command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands and options.

    In bash: source <(topicast completion bash), in ~/.bashrc; in zsh the same in ~/.zshrc; in fish:
    topicast completion fish > ~/.config/fish/completions/topicast.fish
    """
    found = get_completion_class(shell)
    if found is None:  # click has each of them
        raise UsageError(f"there is no completion for {shell}")
    click.echo(found(context.find_root().command, {}, PROGRAM, VARIABLE).source())
