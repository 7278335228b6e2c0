"""Plugin hosts for tests, with the plugins of `site/`; checks that nothing of them stays."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dynres.worker.plugin_client import Job, PluginHosts

SITE = str(Path(__file__).parent / "site")
PATH = "/usr/bin:/bin"
LONG = 30.0
"""A timeout that a run which ends by itself never needs."""


@asynccontextmanager
async def plugin_hosts() -> AsyncIterator[PluginHosts]:
    hosts = PluginHosts(PATH, [SITE])
    before = descriptors()
    try:
        yield hosts
    finally:
        seen = hosts.pids
        await hosts.close()
        assert hosts.pids == []
        assert [pid for pid in seen if Path(f"/proc/{pid}").exists()] == []
        await until(lambda: descriptors() <= before)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def run(body: Callable[[PluginHosts], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with plugin_hosts() as hosts:
            await body(hosts)

    asyncio.run(main())


async def until(true: Callable[[], object], limit: float = 20.0) -> None:
    """Wait for something that another process or callback makes true."""
    async with asyncio.timeout(limit):
        while not true():
            await asyncio.sleep(0.005)


def job(plugin: str, timeout: float = LONG, probe: str | None = None, **options: Any) -> Job:
    return Job(probe=probe or plugin, timeout=timeout, plugin=plugin, options=options)


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
