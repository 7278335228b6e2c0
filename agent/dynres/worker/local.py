"""Answers `dynres status` and `dynres agent reload` over the agent's unix socket.

One JSON line in, `{"verb": "status"}` or `{"verb": "reload"}`, one JSON line out.

`reload`: `{"reloaded": true, "warnings": ["text", …]}`. Whatever cannot be done, on both verbs:
`{"error": {"code": "config"|"usage", "message": …, "faults": [{"place", "what", "expected",
"got", "hint"}, …]}}`.

`status` (seconds; every field always there, null when absent):

    host, version, pid, uptime
    config       {folder, state: "ok"|"refused", reason, faults: […]}
    controllers  [{endpoint, state, known_as, software, refusal: {code, reason}|null,
                   problems: {resource: reason}, differs: {resource: how}}]
                 state: connecting | greeting | registered | refused | silent
    resources    [{resource, value, last, unit, state, reason, age, probe, on_failure}]
                 state: fresh | stale | unavailable; on_failure: whether that gave the value
    probes       [{probe, kind: command|plugin|file, resources: […], interval, outcome, reason,
                   duration, age, next_due (seconds from now; null while it runs), failures (in
                   a row), missed_slots, running, waiting (for a free place), stderr,
                   refused: [{name, text, reason}],
                   stream: {pid, since (its start, seconds ago), records, refused, starts}|null}]
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dynres.worker.claim import SYSTEM_FOLDER

ASKING_TIME: Final = 5.0
LINE_LIMIT: Final = 4096

Answer = dict[str, Any]
Verb = Callable[[], Awaitable[Answer]]


class LocalServer:
    """The socket at `path`; a file that a dead agent left there is replaced."""

    def __init__(self, path: Path, verbs: dict[str, Verb]) -> None:
        self._path = path
        self._verbs = verbs
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Answer from now on. Raises OSError where the socket cannot be made."""
        new = self._path.with_name(self._path.name + ".new")
        new.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.setblocking(False)
            listener.bind(str(new))
            # The system's agent may be asked by its own group too.
            new.chmod(0o660 if self._path.parent == SYSTEM_FOLDER else 0o600)
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listener, limit=LINE_LIMIT
            )
            new.replace(self._path)
        except OSError:
            listener.close()
            new.unlink(missing_ok=True)
            raise

    async def close(self) -> None:
        """Answer no more."""
        self._path.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASKING_TIME):
                line = await reader.readline()
            answer = await self._answer(line)
            writer.write(json.dumps(answer, allow_nan=False).encode() + b"\n")
            async with asyncio.timeout(ASKING_TIME):
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # whoever asked is gone, silent, or sends a line without an end
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, line: bytes) -> Answer:
        try:
            asked = json.loads(line)
        except ValueError:
            asked = None
        name = asked.get("verb") if isinstance(asked, dict) else None
        verb = self._verbs.get(name) if isinstance(name, str) else None
        if verb is None:
            known = " or ".join(f'{{"verb": "{name}"}}' for name in self._verbs)
            return failure("usage", f"expected {known}, got {line[:80]!r}")
        return await verb()


def failure(code: str, message: str, faults: tuple[Answer, ...] = ()) -> Answer:
    """The answer when something cannot be done."""
    return {"error": {"code": code, "message": message, "faults": list(faults)}}
