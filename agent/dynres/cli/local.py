"""Asks the agent on this machine over its unix socket: one JSON line there, one back."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dynres.cli.output import CommandError, Exit

TIMEOUT: Final = 5.0
"""Seconds for an answer; a reload reads the files again, which has its own bound."""
RELOAD_TIMEOUT: Final = 60.0
_PREFIX: Final = "agent-"
_SUFFIX: Final = ".sock"


def runtime_folders() -> tuple[Path, ...]:
    """Where sockets of local agents may be: the folder named, else one's own and the system's."""
    named = os.environ.get("DYNRES_RUNTIME")
    if named:
        return (Path(named),)
    own = os.environ.get("XDG_RUNTIME_DIR")
    folders = [Path(own, "dynres")] if own and os.geteuid() != 0 else []
    return (*folders, Path("/run/dynres"))


def _sockets() -> Iterator[tuple[str, Path]]:
    for folder in runtime_folders():
        for path in sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}")):
            yield path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX), path


def find_socket(host: str | None) -> Path:
    """The socket of the agent of `host`, or of the only agent. Raises CommandError."""
    found = list(_sockets())
    chosen = [path for name, path in found if host in {None, name}]
    names = sorted({name for name, _ in found})
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        where = " or ".join(map(str, runtime_folders()))
        there = f"; there is {', '.join(names)}" if names else ""
        raise CommandError(
            f"no agent{f' of host {host}' if host else ''} on this machine has a socket in {where}"
            f"{there} (is it running? its folder is named by DYNRES_RUNTIME)",
            code="no_agent",
        )
    if host is None and len(names) > 1:
        message = f"several agents on this machine: choose one of {', '.join(names)} with --host"
        raise CommandError(message, code="usage", exit_code=Exit.USAGE)
    return chosen[0]  # the same host twice: one's own agent before the system's


def ask_agent(host: str | None, verb: str) -> Any:
    """The agent's answer to `verb`, as JSON gives it. Raises CommandError."""
    path = find_socket(host)
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(RELOAD_TIMEOUT if verb == "reload" else TIMEOUT)
            link.connect(str(path))
            link.sendall(json.dumps({"verb": verb}).encode() + b"\n")
            with link.makefile("rb") as answer:
                line = answer.readline()
    except PermissionError as error:
        message = f"{path}: permission denied: it is for the agent's own user and root"
        raise CommandError(message, code="not_allowed", exit_code=Exit.NOT_ALLOWED) from error
    except TimeoutError as error:
        raise CommandError(f"{path}: the agent does not answer", code="no_agent") from error
    except OSError as error:
        message = (
            f"{path}: no agent is listening ({error.strerror}); it has ended without cleaning up"
        )
        raise CommandError(message, code="no_agent") from error
    if not line.endswith(b"\n"):
        raise CommandError(f"{path}: the agent ended before it had answered", code="no_agent")
    answer = json.loads(line)
    if "error" in answer:
        refusal = answer["error"]
        raise CommandError(
            refusal["message"],
            code=refusal["code"],
            exit_code=Exit.USAGE if refusal["code"] in {"config", "usage"} else Exit.FAILED,
            faults=refusal["faults"],
        )
    return answer
