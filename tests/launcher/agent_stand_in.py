"""Stands in for an agent that is killed: `agent_stand_in.py AGENT WORD` runs probes for ever."""

import asyncio
import sys

from dynres.worker.launch import LaunchRequest
from dynres.worker.launcher_client import LauncherClient


async def main(agent: str, word: str) -> None:
    client = LauncherClient(agent)
    await client.start()
    env = {"PATH": "/bin:/usr/bin", "M": word}
    scripts = ["sleep 60", "trap '' TERM HUP; sleep 60; :", "setsid sleep 60 & sleep 60"]
    asked = [
        LaunchRequest(run=f"r{n}", argv=("/bin/sh", "-c", script), env=env, timeout=60.0)
        for n, script in enumerate(scripts)
    ]
    print(client.pids()[0], flush=True)
    await asyncio.gather(*(client.run(one) for one in asked))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
