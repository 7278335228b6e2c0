"""Runs commands through a real launcher, and looks for what they leave behind."""

import ast
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from dynres.worker.launch import LaunchRequest, LaunchResult
from dynres.worker.launcher_client import LauncherClient

ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
CLEARED = "env -i /usr/bin/setsid"
"""Before a command: it leaves its session, and takes no mark of the environment along."""


def request(*argv: str, run: str | None = None, **options: Any) -> LaunchRequest:
    fields = {"timeout": 10.0, "env": ENV, **options}
    return LaunchRequest(run=run or uuid4().hex, argv=argv, **fields)


def shell(script: str, **options: Any) -> LaunchRequest:
    return request("/bin/sh", "-c", script, **options)


def sleep_time() -> str:
    """A number of seconds that no other sleeper has: it can be found by that."""
    return f"6{uuid4().int % 10**6:06d}"


def with_launcher(use: Callable[[LauncherClient], Awaitable[Any]], agent: str | None = None) -> Any:
    """What `use(client)` returns, with a launcher of its own around it."""

    async def main() -> Any:
        client = LauncherClient(agent or f"test-{uuid4().hex}")
        try:
            await client.start()
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(main())


def launch(asked: LaunchRequest) -> LaunchResult:
    """The result of one run in a launcher of its own."""
    return with_launcher(lambda client: client.run(asked))


CODE = """
import sys
sys.path.insert(0, {folder!r})
from launching import LaunchRequest, launch
print(repr(tuple(launch(LaunchRequest(**{fields!r})))))
"""


def launch_without(capabilities: str, asked: LaunchRequest) -> LaunchResult:
    """As `launch`, in an agent that lacks these (`setuid,setgid`), also where the tests are root's.

    Without them root is an ordinary user.
    """
    code = CODE.format(folder=str(Path(__file__).parent), fields=asked._asdict())
    command = [sys.executable, "-c", code]
    if os.geteuid() == 0:
        less = ",".join(f"-{name}" for name in capabilities.split(","))
        command = ["setpriv", f"--bounding-set={less}", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return LaunchResult(*ast.literal_eval(done.stdout))


def marked(word: str) -> list[int]:
    """Pids of processes whose environment or command line holds `word`, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in text:
            found.append(int(entry.name))
    return found


def until(condition: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Wait for `condition` to become true; its value, or the last one at the deadline."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


async def until_async(condition: Callable[[], Any], seconds: float = 5.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return value
