"""`dynres leases` and `dynres history`: who holds what, and what has happened."""

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.asked import duration
from dynres.cli.lease_words import history_table, leases_table
from dynres.cli.options import controller_option, json_option
from dynres.cli.table import show
from dynres.config.near import nearest
from dynres.wire.views import to_builtins


@click.command()
@click.option("--job", metavar="J", help="Only this job's.")
@click.option("--owner", metavar="O", help="Only this owner's.")
@click.option("--host", metavar="H", help="Only those for this host.")
@controller_option
@json_option
def leases(
    *,
    job: str | None,
    owner: str | None,
    host: str | None,
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show every lease: who holds what, since when, and until when.

    \b
    Example:
      dynres leases --job 4711
      dynres leases --json | jq '.leases[] | {job, resource, amount}'
    """
    with asking(controller) as client:
        view = client.leases(job=job, owner=owner, host=host)
    if as_json:
        output.document(to_builtins(view))
    else:
        show(leases_table(view))


@click.command()
@click.option("--pool", metavar="P", help="A resource, an instance, or RESOURCE/INSTANCE.")
@click.option("--job", metavar="J", help="Only this job.")
@click.option("--host", metavar="H", help="Only this host.")
@click.option("--owner", metavar="O", help="Only this owner.")
@click.option("--since", metavar="D", callback=duration, help="Only the last 2h, 30m, …")
@controller_option
@json_option
def history(
    *,
    pool: str | None,
    job: str | None,
    host: str | None,
    owner: str | None,
    since: float | None,
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what has happened: grants, answers, releases and why, overrides, reporters; 30 days.

    \b
    Example:
      dynres history --pool iris --since 2h
      dynres history --job 4711 --json
    """
    with asking(controller) as client:
        view = client.history(pool=pool, job=job, host=host, owner=owner, since=since)
        pools = client.pools().pools if pool and not (as_json or view.entries) else ()
    if as_json:
        output.document(to_builtins(view))
        return
    show(history_table(view))
    known = {n for p in pools for n in (p.resource, p.instance, f"{p.resource}/{p.instance}")}
    if pools and pool is not None and pool not in known:
        hint = nearest(pool, sorted(known)) or "`dynres pools` shows them"
        output.tell(f"no pool {pool} now, and none in what has happened: {hint}")
