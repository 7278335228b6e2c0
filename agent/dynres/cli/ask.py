"""One conversation with the controller: what goes wrong becomes an exit code and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dynres.cli.output import CommandError, Exit

if TYPE_CHECKING:
    from dynres.client import Client

TIMEOUT: Final = 30.0
"""Seconds for an answer, which may be the table of a large cluster. That no controller is there
is found out by the connection, in 2.5 s, so that it is said within 5."""
CODES: Final = {
    "usage": Exit.USAGE,
    "config": Exit.USAGE,
    "requirement": Exit.USAGE,
    "request_reused": Exit.USAGE,
    "not_owner": Exit.NOT_ALLOWED,
    "not_allowed": Exit.NOT_ALLOWED,
}
"""Exit codes of what a controller refuses; of everything else: 1."""


@contextmanager
def asking(endpoints: tuple[str, ...]) -> Iterator["Client"]:
    """A client of the first controller that answers. Raises CommandError for what goes wrong."""
    from dynres.client import Client, ClientError, UnreachableError

    try:
        with Client(endpoints, timeout=TIMEOUT) as client:
            yield client
    except UnreachableError as error:
        where = ", ".join(dict.fromkeys(endpoints))
        message = (
            f"no controller answers at {where}: is it running? "
            "Name another with --controller or DYNRES_CONTROLLER"
        )
        raise CommandError(message, code="unreachable", exit_code=Exit.UNREACHABLE) from error
    except ClientError as error:
        raise CommandError(
            str(error),
            code=error.code,
            exit_code=CODES.get(error.code, Exit.FAILED),
            faults=error.faults,
        ) from error
