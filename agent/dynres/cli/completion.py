"""`dynres completion`: the script that makes a shell complete dynres' verbs and options."""

import click
from click.shell_completion import get_completion_class

from dynres.cli import output
from dynres.cli.output import CommandError


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Example:
      eval "$(dynres completion bash)"          # in ~/.bashrc
      eval "$(dynres completion zsh)"           # in ~/.zshrc
      dynres completion fish | source           # in config.fish
    """
    from dynres.cli.main import dynres

    maker = get_completion_class(shell)
    if maker is None:
        raise CommandError(f"no completion for {shell} in this version of click")
    output.say(maker(dynres, {}, "dynres", "_DYNRES_COMPLETE").source())
