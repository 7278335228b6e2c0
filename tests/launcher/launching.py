"""Runs commands through a real launcher, and looks for what they leave behind."""

import asyncio
import os
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
