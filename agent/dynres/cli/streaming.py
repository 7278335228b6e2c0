"""`dynres acquire -`, `release -`: one JSON request a line in, one answer a line out, in order."""

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from dynres.cli import output
from dynres.cli.asked import read_hosts, without_groups
from dynres.cli.lease_words import CODES
from dynres.cli.output import Exit
from dynres.value import read_duration
from dynres.wire.leasing import Acquired, Released
from dynres.wire.requests import AnyAnswer, Failure
from dynres.wire.views import to_builtins

if TYPE_CHECKING:
    from dynres.client import Batch, Client

ACQUIRE: Final = frozenset(
    {"job", "host", "need", "slots", "ttl", "wait", "request", "running", "owner"}
)
RELEASE: Final = frozenset({"job", "lease", "host", "owner"})
READ: Final = 65536
Fields = Mapping[str, Any]


class _Lines:
    """Complete lines of stdin, as they come."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: int | None = descriptor
        self._rest = b""
        self._lines: deque[bytes] = deque()

    def more(self) -> None:
        """Read what is there."""
        if self.descriptor is None:
            return
        data = os.read(self.descriptor, READ)
        if not data:
            self.descriptor = None
            self._lines.extend([self._rest] if self._rest.strip() else [])
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line for line in whole if line.strip())

    @property
    def ended(self) -> bool:
        """Whether none is left and none can come: the last one may have no end."""
        return self.descriptor is None and not self._lines

    def next(self) -> bytes | None:
        """The next line that is complete."""
        return self._lines.popleft() if self._lines else None


def serve_lines(client: "Client", verb: str, owner: str) -> int:
    """Answer each line; the exit code is that of the first line that was not granted."""
    send = _acquire if verb == "acquire" else _release
    lines = _Lines(sys.stdin.fileno())
    waiting: deque[AnyAnswer | None] = deque()
    code = int(Exit.DONE)
    with client.batch() as batch:
        while not lines.ended or batch.open or waiting:
            while not batch.full and (line := lines.next()) is not None:
                waiting.append(_ask(client, batch, line, owner, send))
            code = _tell(batch, waiting, code)
            if lines.descriptor is not None and not batch.full:
                if not batch.turn(beside=lines.descriptor):
                    lines.more()
            elif batch.open:
                batch.turn()
    return code


def _ask(
    client: "Client",
    batch: "Batch",
    line: bytes,
    owner: str,
    send: Callable[["Client", "Batch", Fields], None],
) -> Failure | None:
    """Send a request; a failure takes its place where it is none."""
    from dynres.client import RequestRefusedError

    try:
        fields = json.loads(line, object_pairs_hook=_once)
        if not isinstance(fields, dict):
            raise ValueError(f"expected a JSON object, got {line[:60].decode(errors='replace')}")
        send(client, batch, {"owner": owner, **fields})
    except RequestRefusedError as error:
        return Failure(code=error.code, message=error.message)
    except RecursionError:
        return Failure(code="usage", message="expected a JSON object, got one nested too deeply")
    except (ValueError, TypeError, click.UsageError) as error:
        message = error.format_message() if isinstance(error, click.UsageError) else str(error)
        return Failure(code="usage", message=message)
    return None


def _tell(batch: "Batch", waiting: deque[AnyAnswer | None], code: int) -> int:
    """Print the answers that are ready, as far as the order allows; the first exit code not 0."""
    told = False
    ready = batch.ready()
    while waiting:
        answer = waiting[0] if waiting[0] is not None else next(ready, None)
        if answer is None:
            break
        waiting.popleft()
        here = _print(answer)
        code = code or here
        told = True
    if told:
        output.flush()
    return code


def _print(answer: AnyAnswer) -> int:
    if isinstance(answer, Failure):
        shown: Any = {
            "error": {
                "code": answer.code,
                "message": answer.message,
                "faults": list(answer.faults),
            }
        }
        code = int(Exit.USAGE if answer.code == "usage" else Exit.FAILED)
    elif isinstance(answer, Acquired):
        shown, code = to_builtins(answer.view), int(CODES[answer.view.answer])
    elif isinstance(answer, Released):
        shown, code = to_builtins(answer.view), 0
    else:
        shown, code = {"error": {"code": "protocol", "message": "?", "faults": []}}, 1
    output.say(json.dumps(shown, allow_nan=False))
    return code


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object each of whose keys stands once: which of two counts is nobody's guess."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice}: given twice; expected each key once")
    return fields


def _known(fields: Fields, known: frozenset[str]) -> None:
    strange = sorted(fields.keys() - known)
    if strange:
        raise ValueError(f"unknown key {strange[0]!r}: expected {', '.join(sorted(known))}")


def _text(fields: Fields, key: str) -> str | None:
    given = fields.get(key)
    if isinstance(given, bool) or not (given is None or isinstance(given, str | int)):
        raise ValueError(f"{key}: expected a text, got {given!r}")
    return None if given is None else str(given)


def _flag(fields: Fields, key: str) -> bool:
    given = fields.get(key, False)
    if not isinstance(given, bool):
        raise ValueError(f"{key}: expected true or false, got {given!r}")
    return given


def _seconds(fields: Fields, key: str) -> float | None:
    given = fields.get(key)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError(f"{key}: expected a duration, got {given!r}")
    return read_duration(str(given))


def _acquire(client: "Client", batch: "Batch", fields: Fields) -> None:
    _known(fields, ACQUIRE)
    job, host, need = _text(fields, "job"), fields.get("host"), fields.get("need")
    if not job or not host or not need:
        raise ValueError("expected job, host and need")
    if isinstance(host, list):
        host = ",".join(map(str, host))
    slots = fields.get("slots", 1)
    if not isinstance(host, str):
        raise ValueError(f"host: expected a host set, got {host!r}")
    if isinstance(slots, bool) or not isinstance(slots, int):
        raise ValueError(f"slots: expected a whole number, got {slots!r}")
    if isinstance(need, str):
        need = [need]
    if not isinstance(need, dict | list):
        raise ValueError(f'need: expected {{"R": AMOUNT}} or ["R=AMOUNT"], got {need!r}')
    batch.acquire(
        job,
        without_groups(client, read_hosts(host, slots)),
        need,
        owner=str(fields["owner"]),
        request=_text(fields, "request"),
        ttl=_seconds(fields, "ttl"),
        running=_flag(fields, "running"),
        wait=_seconds(fields, "wait"),
    )


def _release(_: "Client", batch: "Batch", fields: Fields) -> None:
    _known(fields, RELEASE)
    job, host, lease = _text(fields, "job"), _text(fields, "host"), fields.get("lease") or ()
    if job is None and host is None and not lease:
        raise ValueError("expected job, lease or host")
    leases = (lease,) if isinstance(lease, str) else tuple(map(str, lease))
    batch.release(job, lease=leases, host=host, owner=str(fields["owner"]))
