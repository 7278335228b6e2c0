"""The options and arguments that several verbs share, each defined once."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dynres.cli.output import CommandError, Exit

if TYPE_CHECKING:
    from dynres.config.load import Loaded, Role

DEFAULT_CONFIG: Final = "/etc/dynres"
DEFAULT_CONTROLLER: Final = "tcp://127.0.0.1:5751"

COMMA_OUTSIDE = re.compile(r",(?![^\[\]]*\])")
"""A comma between terms: `h1,node[1-4,9]` has two."""

Decorated = Callable[..., Any]


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def check_endpoints(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Check `tcp://HOST:PORT` or `ipc://PATH`. A usage error otherwise."""
    for endpoint in value:
        scheme, _, address = endpoint.partition("://")
        host, _, port = address.rpartition(":")
        if not ((scheme == "ipc" and address) or (scheme == "tcp" and host and _is_port(port))):
            raise click.BadParameter(f"expected tcp://HOST:PORT, got {endpoint!r}")
    return value


def address_port(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """Check an `ADDR:PORT`, where a page is served, or `off`. A usage error otherwise."""
    host, _, port = (value or "").rpartition(":")
    if value not in {None, "off"} and not (host and (_is_port(port) or port == "0")):
        raise click.BadParameter(
            f"expected ADDR:PORT such as 127.0.0.1:9750, or off, got {value!r}"
        )
    return value


def config_option(function: Decorated) -> Decorated:
    """`--config DIR`, as argument `config: Path`."""
    return click.option(
        "--config",
        metavar="DIR",
        type=click.Path(path_type=Path),
        envvar="DYNRES_CONFIG",
        default=DEFAULT_CONFIG,
        show_default=True,
        show_envvar=True,
        help="The configuration folder.",
    )(function)


def controller_option(function: Decorated) -> Decorated:
    """`--controller ENDPOINT`, repeatable, as argument `controller: tuple[str, ...]`."""
    return click.option(
        "--controller",
        metavar="ENDPOINT",
        callback=check_endpoints,
        envvar="DYNRES_CONTROLLER",
        default=(DEFAULT_CONTROLLER,),
        multiple=True,
        show_default=True,
        show_envvar=True,
        help="Where the controller answers clients; repeatable: the next is tried.",
    )(function)


def json_option(function: Decorated) -> Decorated:
    """`--json`, as argument `as_json: bool`."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON document on stdout, on failure too.",
    )(function)


def host_option(function: Decorated) -> Decorated:
    """`--host NAME` of a local agent, as argument `host: str | None`."""
    return click.option(
        "--host",
        metavar="NAME",
        help="Which agent, where several run on this machine.",
    )(function)


def hosts_argument(function: Decorated) -> Decorated:
    """`HOST…`, host sets, as argument `hosts: tuple[str, ...]` (expanded by `host_names`)."""
    return click.argument("hosts", metavar="[HOST]...", nargs=-1)(function)


def where_option(function: Decorated) -> Decorated:
    """`--where EXPR`, as argument `where: str | None`."""
    return click.option(
        "--where",
        metavar="EXPR",
        help="A requirement, such as 'bigmem && mem >= 2 GB'; see docs/requirements.md.",
    )(function)


def host_names(sets: tuple[str, ...]) -> tuple[str, ...]:
    """Hosts (and `@group`s) of the sets given, each once, in order. A usage error otherwise."""
    if not sets:
        return ()
    from dynres.config.hosts import TermError, expand

    names: dict[str, None] = {}
    for term in (term for given in sets for term in COMMA_OUTSIDE.split(given)):
        if term.startswith("@"):  # the controller knows its groups
            names[term] = None
            continue
        try:
            names.update(dict.fromkeys(expand(term)))
        except TermError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise click.UsageError(f"HOST {term!r}: {error}{hint}") from error
    return tuple(names)


def read_folder(folder: Path, role: "Role", *, everything: bool = False) -> "Loaded":
    """The valid configuration of a folder. Raises CommandError with every fault it has.

    `everything`: the settings of the other role are read as well.
    """
    from dynres.config.faults import ConfigError
    from dynres.config.load import load

    try:
        return load(folder, role, everything=everything)
    except ConfigError as error:
        count = len(error.faults)
        raise CommandError(
            f"{folder}: {count} fault{'s' if count != 1 else ''} in the configuration",
            code="config",
            exit_code=Exit.USAGE,
            faults=[fault.as_json() for fault in error.faults],
        ) from error
