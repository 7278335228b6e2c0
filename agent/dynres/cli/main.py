"""The `dynres` command: finds the verb, loads only its module, and turns faults into exit codes."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem

from dynres import __version__
from dynres.cli import output
from dynres.cli.output import CommandError, Exit, ReaderGoneError

VERBS: Final = {
    "up": ("up", "Controller and agent on this machine, with a live table."),
    "agent": ("daemons", "The per-host daemon; `agent reload` reads its files again."),
    "controller": ("daemons", "The controller; `controller reload` reads its files again."),
    "check": ("check", "Validate a folder and say what it means, in words."),
    "resolve": ("resolve", "What is declared, resolved for every host."),
    "schema": ("check", "JSON Schema of a configuration file, for editors."),
    "probe": ("probe_verbs", "Probes of a folder: `probe list`, `probe test NAME`."),
    "status": ("status", "The local agent and each of its probes."),
    "doctor": ("doctor", "What keeps this machine's agent from working, and what to do."),
    "hosts": ("hosts", "Hosts, their agents and how their files compare."),
    "values": ("values", "The table: host, resource, value, state, age and source."),
    "watch": ("watch", "A snapshot and then each change, as JSON lines."),
    "pools": ("pools", "What can be leased, and how much of it is free."),
    "explain": ("hosts", "All about one value on one host, in sentences."),
    "leases": ("records", "Who holds what."),
    "history": ("records", "What has happened to pools, jobs and hosts."),
    "run": ("run", "Run a command with amounts: waits its turn, renews, releases."),
    "acquire": ("leasing", "Take amounts for a job: all of them, or none."),
    "release": ("leasing", "Give amounts back."),
    "renew": ("leasing", "Give leases their full ttl again."),
    "suspend": ("leasing", "Give back what a suspended job can spare."),
    "resume": ("leasing", "Take it again."),
    "reconcile": ("leasing", "Release what jobs hold that are no more."),
    "set": ("operators", "Let a value count, whatever is measured."),
    "unset": ("operators", "Let the declared or measured value count again."),
    "host": ("operators", "Close hosts to new work, open or forget them."),
    "completion": ("completion", "Completion script for bash, zsh or fish."),
}
"""Verb -> its module in this package (which names the command as the verb is), and its summary."""


class Verbs(click.Group):
    """A group that imports a verb's module only when that verb is run or completed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Verbs in the order of use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported now; None for an unknown one."""
        if cmd_name not in VERBS:
            return None
        module = import_module(f"dynres.cli.{VERBS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_" if cmd_name == "set" else cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__}.{cmd_name} is no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a near miss named for a mistyped verb."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, summary) for verb, (_, summary) in VERBS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a verb without importing any."""
        verbs = [
            CompletionItem(verb, help=summary)
            for verb, (_, summary) in VERBS.items()
            if verb.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a closed pipe would be a failure to click, and Ctrl-C a line on stderr."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(Exit.INTERRUPTED) from None


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        output.say(f"dynres {__version__}")
        ctx.exit()


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Print the version and end.",
)
def dynres() -> None:
    """Custom resources for batch clusters: measured, replicated, pooled, never silently stale.

    \b
    Example:
      dynres up --config examples/quickstart
      dynres values host1
      dynres explain host1 scratch_free
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    options = list(arguments)
    as_json = "--json" in (options[: options.index("--")] if "--" in options else options)
    try:
        return _finish(dynres.main(options, prog_name="dynres", standalone_mode=False))
    except CommandError as error:
        failed = error
    except click.UsageError as error:
        if not as_json or isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show(sys.stderr)
            return Exit.USAGE
        failed = CommandError(error.format_message(), code="usage", exit_code=Exit.USAGE)
    except click.ClickException as error:
        failed = CommandError(error.format_message(), exit_code=error.exit_code)
    except OSError as error:
        known = error.filename is not None
        failed = CommandError(f"{error.filename}: {error.strerror}" if known else str(error))
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except ReaderGoneError:
        output.abandon()
        return Exit.DONE
    return _fail(failed, as_json)


def _finish(result: object) -> int:
    output.flush()
    return result if isinstance(result, int) else Exit.DONE


def _fail(error: CommandError, as_json: bool) -> int:
    try:
        code = output.failure(error, as_json=as_json)
        output.flush()
    except (CommandError, ReaderGoneError):  # neither the answer nor the failure can be written
        output.abandon()
        return int(error.exit_code)
    return code


def main() -> NoReturn:
    """The console script."""
    output.prepare()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
