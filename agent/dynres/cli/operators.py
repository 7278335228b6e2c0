"""`dynres set`, `unset` and `host`: what an operator decides, whatever is declared or measured."""

import click

from dynres.cli import output
from dynres.cli.ask import asking
from dynres.cli.asked import duration, who
from dynres.cli.lease_words import override_line
from dynres.cli.options import controller_option, host_names, json_option
from dynres.wire.lease_views import ChangedView
from dynres.wire.views import to_builtins

UNAVAILABLE = "unavailable"


def _targets(host: tuple[str, ...], pool: str | None) -> tuple[str, ...]:
    if host and pool is not None:
        raise click.UsageError("--host or --pool, not both.")
    return host_names(host)


# A value may be negative, and -4 is no option then.
@click.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("resource")
@click.argument("value", metavar="VALUE|unavailable")
@click.option("--host", metavar="SET", multiple=True, help="On these hosts.")
@click.option("--pool", metavar="NAME", help="For this shared instance.")
@click.option("--reason", metavar="TEXT", required=True, help="Why; shown to whoever meets it.")
@click.option("--for", "lasts", metavar="D", callback=duration, help="It ends after this time.")
@controller_option
@json_option
def set_(
    *,
    resource: str,
    value: str,
    host: tuple[str, ...],
    pool: str | None,
    reason: str,
    lasts: float | None,
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Let VALUE count for RESOURCE, on hosts or for a pool; it beats every other source.

    One of --host and --pool is required.

    It survives reload and restart. What is measured stays visible as `reported`.

    \b
    Example:
      dynres set iris 40 --pool iris --reason "vendor audit" --for 2h
      dynres set scratch unavailable --host node07 --reason "disk is replaced"
    """
    hosts = _targets(host, pool)
    if not hosts and pool is None:
        raise click.UsageError("Missing option --host or --pool.")
    given = None if value == UNAVAILABLE else value
    with asking(controller) as client:
        view = client.set(
            resource, given, hosts=hosts, pool=pool, reason=reason, who=who(), lasts=lasts
        )
    if as_json:
        output.document(to_builtins(view))
        return
    for override in view.overrides:
        output.say(override_line(override))


@click.command()
@click.argument("resource")
@click.option("--host", metavar="SET", multiple=True, help="On these hosts.")
@click.option("--pool", metavar="NAME", help="For this shared instance.")
@controller_option
@json_option
def unset(
    *,
    resource: str,
    host: tuple[str, ...],
    pool: str | None,
    controller: tuple[str, ...],
    as_json: bool,
) -> None:
    """Let the declared or measured value count again; without --host and --pool everywhere.

    \b
    Example:
      dynres unset iris --pool iris
    """
    hosts = _targets(host, pool)
    with asking(controller) as client:
        view = client.unset(resource, hosts=hosts, pool=pool, who=who())
    again = f"{resource} is as declared or measured again"
    for one in () if as_json else view.pools:
        output.say(f"{again} for pool {one}")
    if as_json or view.hosts or not view.pools:
        _changed(view, f"{again} on", as_json=as_json)


def _changed(view: ChangedView, what: str, *, as_json: bool) -> None:
    if as_json:
        output.document(to_builtins(view))
    elif view.hosts:
        from dynres.config.hosts import fold

        output.say(f"{what} {fold(view.hosts)}")
    else:
        output.say("nothing to do")


@click.group()
def host() -> None:
    """Close hosts to new work, open them again, or forget them.

    \b
    Example:
      dynres host close node07 --reason "disk is replaced"
      dynres host open node07
    """


_HOSTS = click.argument("hosts", metavar="SET...", nargs=-1, required=True)


@host.command(short_help="Grant nothing on these hosts, until they are opened.")
@_HOSTS
@click.option("--reason", metavar="TEXT", required=True, help="Why; shown to whoever meets it.")
@controller_option
@json_option
def close(hosts: tuple[str, ...], reason: str, controller: tuple[str, ...], as_json: bool) -> None:
    """Grant nothing on these hosts; they are no reporters, left out of --where, and keep leases.

    \b
    Example:
      dynres host close "node[07-09]" --reason "rack 2 moves"
    """
    with asking(controller) as client:
        view = client.close_hosts(host_names(hosts), reason=reason, who=who())
    _changed(view, "closed:", as_json=as_json)


@host.command("open")
@_HOSTS
@click.option("--reason", metavar="TEXT", help="Why.")
@controller_option
@json_option
def open_(
    *, hosts: tuple[str, ...], reason: str | None, controller: tuple[str, ...], as_json: bool
) -> None:
    """Grant on these hosts again.

    \b
    Example:
      dynres host open "node[07-09]"
    """
    with asking(controller) as client:
        view = client.open_hosts(host_names(hosts), reason=reason, who=who())
    _changed(view, "opened:", as_json=as_json)


@host.command(short_help="Know hosts no more that are gone for good.")
@_HOSTS
@click.option("--reason", metavar="TEXT", help="Why.")
@controller_option
@json_option
def forget(
    *, hosts: tuple[str, ...], reason: str | None, controller: tuple[str, ...], as_json: bool
) -> None:
    """Know these hosts no more: not declared, not up, nothing held for them.

    \b
    Example:
      dynres host forget node99
    """
    with asking(controller) as client:
        view = client.forget_hosts(host_names(hosts), reason=reason, who=who())
    _changed(view, "forgotten:", as_json=as_json)
