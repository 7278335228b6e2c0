"""`dynres acquire`, `release`, `renew`, `suspend`, `resume`, `reconcile`: what jobs hold."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.asked import (
    duration,
    need_option,
    owner_option,
    read_as_of,
    read_hosts,
    ttl_option,
    who,
    without_groups,
)
from dynres.cli.lease_words import CODES, answer_lines, released_lines
from dynres.cli.options import controller_option, json_option
from dynres.wire.lease_views import AcquireView, ReleaseView
from dynres.wire.leasing import Need
from dynres.wire.views import to_builtins


def answered(view: AcquireView, *, as_json: bool) -> int:
    """Say what was answered to a request; the exit code."""
    if as_json:
        output.document(to_builtins(view))
    else:
        for line in answer_lines(view):
            output.say(output.printable(line))
    return int(CODES[view.answer])


def given_back(view: ReleaseView, *, as_json: bool, none: str = "nothing was held") -> None:
    """Say what was released; `none`: why nothing was."""
    if as_json:
        output.document(to_builtins(view))
    elif view.released:
        for line in released_lines(view.released):
            output.say(output.printable(line))
    else:
        output.say(f"{none}: nothing is released")


@click.command()
@click.argument("stream", metavar="[-]", required=False)
@click.option("--job", metavar="J", help="The job; any text. [required]")
@click.option(
    "--host", metavar="SET[*SLOTS]", help="Where it runs: h1*4,h2*8 or node[01-04]. [required]"
)
@need_option
@click.option("--slots", metavar="N", type=click.IntRange(1), default=1, help="Slots on each host.")
@ttl_option
@click.option("--wait", metavar="D", callback=duration, help="Wait for its turn, for so long.")
@click.option("--request", metavar="ID", help="Asked again with it, nothing is taken twice.")
@click.option("--running", is_flag=True, help="The job runs already: record what it uses.")
@owner_option
@controller_option
@json_option
def acquire(
    *,
    stream: str | None,
    job: str | None,
    host: str | None,
    need: tuple[Need, ...],
    slots: int,
    ttl: float | None,
    wait: float | None,
    request: str | None,
    running: bool,
    owner: str,
    controller: tuple[str, ...],
    as_json: bool,
) -> int:
    """Take amounts for a job: all of them, or none.

    Exit code 0: granted. 75: not now. 69: never, by what the files declare. With `-` it reads one
    JSON request a line and answers each with a line, in order; no option is required then.

    \b
    Example:
      dynres acquire --job 4711 --host h1 --need iris=2 --need scratch=20GB --ttl 1h
      echo '{"job": "4711", "host": "h1*4", "need": {"iris": 2}}' | dynres acquire -
    """
    if stream is not None:
        return _stream(stream, "acquire", owner, controller)
    if not job or not host or not need:
        given = (("--job", job), ("--host", host), ("--need", need))
        raise click.UsageError(f"Missing option {' and '.join(o for o, v in given if not v)}.")
    seats = read_hosts(host, slots)
    with asking(controller) as client:
        hosts = without_groups(client, seats)
        view = client.acquire(
            job, hosts, need, owner=owner, request=request, ttl=ttl, running=running, wait=wait
        )
    return answered(view, as_json=as_json)


def _stream(stream: str, verb: str, owner: str, controller: tuple[str, ...]) -> int:
    if stream != "-":
        raise click.UsageError(f"expected - or options, got {stream!r}")
    from dynres.cli.streaming import serve_lines

    with asking(controller) as client:
        return serve_lines(client, verb, owner)


@click.command()
@click.argument("stream", metavar="[-]", required=False)
@click.option("--job", metavar="J", help="All that the job holds; with --host, only there.")
@click.option("--lease", metavar="ID", multiple=True, help="These leases; repeatable.")
@click.option("--host", metavar="H", help="All that is held for this host.")
@click.option("--any-owner", is_flag=True, help="As an operator: whoever's, by lease or host.")
@owner_option
@controller_option
@json_option
def release(
    *,
    stream: str | None,
    job: str | None,
    lease: tuple[str, ...],
    host: str | None,
    any_owner: bool,
    owner: str,
    controller: tuple[str, ...],
    as_json: bool,
) -> int:
    """Give amounts back, by --job, --lease or --host: one of them is required, or `-`.

    What is released already, or a job that holds nothing, is no error. With `-` it reads one JSON
    request a line.

    \b
    Example:
      dynres release --job 4711
      dynres release --host h1 --any-owner
    """
    if stream is not None:
        return _stream(stream, "release", owner, controller)
    if job is None and not lease and host is None:
        raise click.UsageError("Missing option --job, --lease or --host.")
    if lease and (job is not None or host is not None):
        raise click.UsageError("--lease says all: leave --job and --host out.")
    if any_owner and job is not None:
        raise click.UsageError("--any-owner goes with --lease or --host: jobs are an owner's.")
    with asking(controller) as client:
        view = client.release(
            job, lease=lease, host=host, owner=None if any_owner else owner, who=who()
        )
    given_back(view, as_json=as_json)
    return 0


@click.command()
@click.option("--job", metavar="J", help="All leases of the job.")
@click.option("--lease", metavar="ID", multiple=True, help="These leases; repeatable.")
@owner_option
@controller_option
@json_option
def renew(
    *,
    job: str | None,
    lease: tuple[str, ...],
    owner: str,
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Give leases their full ttl again, by --job or --lease: one of them is required.

    Exit code 1 where the job holds nothing.

    \b
    Example:
      dynres renew --job 4711
    """
    if (job is None) == (not lease):
        raise click.UsageError("Missing option --job or --lease.")
    with asking(controller) as client:
        view = client.renew(job, lease=lease, owner=owner)
    if as_json:
        output.document(to_builtins(view))
        return
    for one in view.renewed:
        ends = f"expires {one.expires}" if one.expires else "has no ttl: it does not expire"
        output.say(f"{one.lease} {ends}")


@click.command()
@click.option("--job", metavar="J", required=True, help="The job.")
@owner_option
@controller_option
@json_option
def suspend(job: str, owner: str, controller: tuple[str, ...], as_json: bool) -> None:
    """Give back what a suspended job holds of resources with flag `release`.

    \b
    Example:
      dynres suspend --job 4711
    """
    with asking(controller) as client:
        view = client.suspend(job, owner=owner)
    none = f"job {job} of {owner} holds nothing with flag release that is not suspended already"
    given_back(view, as_json=as_json, none=none)


@click.command()
@click.option("--job", metavar="J", required=True, help="The job.")
@owner_option
@controller_option
@json_option
def resume(job: str, owner: str, controller: tuple[str, ...], as_json: bool) -> int:
    """Take what a suspended job gave back again: all of it, or exit code 75.

    \b
    Example:
      dynres resume --job 4711
    """
    with asking(controller) as client:
        view = client.resume(job, owner=owner)
    return answered(view, as_json=as_json)


def _jobs(source: str) -> Iterable[str]:
    """One job a line; blanks around it and empty lines do not count."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--jobs {source}: not UTF-8: {error}") from error
    except OSError as error:
        raise click.UsageError(f"--jobs {source}: {error.strerror}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


@click.command()
@click.option("--jobs", metavar="FILE|-", required=True, help="The live jobs, one a line.")
@click.option(
    "--as-of",
    metavar="TIME",
    required=True,
    help="When the list was begun: RFC 3339, seconds since 1970, or -30s.",
)
@click.option("--allow-empty", is_flag=True, help="An empty list is meant: release everything.")
@owner_option
@controller_option
@json_option
def reconcile(
    *,
    jobs: str,
    as_of: str,
    allow_empty: bool,
    owner: str,
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Release the owner's leases of jobs that are not in the list, older than the list.

    \b
    Example:
      squeue -h -o %A | dynres reconcile --jobs - --as-of -30s
    """
    try:
        begun = read_as_of(as_of)
    except ValueError as error:
        raise click.UsageError(f"--as-of {error}") from error
    live = _jobs(jobs)
    with asking(controller) as client:
        try:
            view = client.reconcile(live, begun, owner=owner, allow_empty=allow_empty)
        except ValueError as error:
            raise click.UsageError(f"--as-of: {error}") from error
    given_back(view, as_json=as_json)
