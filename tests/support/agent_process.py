"""A real agent process for tests, with a folder, a runtime folder and a log of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

READY_MASK = 1 << (signal.SIGHUP - 1)


class AgentProcess:
    """`python -m dynres.worker` for the host `h1` over the folder `home/config`."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        metrics: str | None = "127.0.0.1:0",
        under: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        log: Path | None = None,
        program: tuple[str, ...] = ("-m", "dynres.worker"),
    ) -> None:
        """`under`: a command that becomes or starts the agent; `env` in place of the test's own."""
        self.home = home
        self.log = log or home / "agent.log"
        page = () if metrics is None else ("--metrics", metrics)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *(*under, sys.executable, *program),
                    *("--config", str(home / "config"), "--host", "h1"),
                    *page,
                    *arguments,
                ],
                env={
                    **(os.environ if env is None else env),
                    "DYNRES_RUNTIME": str(home / "run"),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self.process.pid

    @property
    def socket(self) -> Path:
        """Its local socket."""
        return self.home / "run" / "agent-h1.sock"

    def said(self) -> str:
        """What it wrote so far."""
        return self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def ended(self, seconds: float = 30.0) -> int:
        """Wait for its end; its exit status."""
        try:
            return await asyncio.to_thread(self.process.wait, seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {seconds} s:\n{self.said()}") from None

    async def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.send(signal.SIGTERM)
        return await self.ended()

    async def ask(self, verb: str) -> Any:
        """Its answer over the local socket."""
        reader, writer = await asyncio.open_unix_connection(str(self.socket), limit=1 << 20)
        writer.write(json.dumps({"verb": verb}).encode() + b"\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return json.loads(answer)

    async def until(self, what: Callable[[], T], seconds: float = 30.0) -> T:
        """Ask again and again until the answer is true, and return it."""
        deadline = time.monotonic() + seconds
        while not (answer := what()):
            assert time.monotonic() < deadline, f"not within {seconds} s:\n{self.said()}"
            await asyncio.sleep(0.01)
        return answer

    async def until_it_blocks_signals(self, mask: str = "SigBlk") -> None:
        """Wait for its first instruction; with `SigIgn`, for that of what ignores them before."""
        status = Path(f"/proc/{self.pid}/status")

        def holds() -> bool:
            lines = status.read_text().splitlines()
            found = next((line for line in lines if line.startswith(mask)), f"{mask}: 0")
            return bool(int(found.split()[1], 16) & READY_MASK)

        await self.until(holds)

    def close(self) -> None:
        """End it whatever its state."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def marked(marker: str) -> list[int]:
    """The processes that have `marker` in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(int(folder.name))
    return found
