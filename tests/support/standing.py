"""A controller as a process of its own, for tests that kill it, and commands against it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import free_port, wait_for

from dynres.client import Client, UnreachableError

CLEAN = {key: text for key, text in os.environ.items() if not key.startswith(("DYNRES_", "COV"))}


class Standing:
    """One controller on one folder and one state, started as often as wanted."""

    def __init__(self, folder: Path, resources: str, hosts: str) -> None:
        self.folder = folder
        (folder / "resources.yaml").write_text(resources)
        (folder / "hosts.yaml").write_text(hosts)
        self.port = free_port()
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.begun: list[subprocess.Popen[str]] = []

    @property
    def endpoint(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def command(self, port: int | None = None) -> list[str]:
        listen = ["--agent-port", "0", "--feed-port", "0", "--client-port", str(port or self.port)]
        state = ["--state", str(self.folder / "state"), "--metrics", "127.0.0.1:0"]
        config = ["--config", str(self.folder)]
        return [sys.executable, "-m", "dynres.controller", *config, *listen, *state]

    def start(self) -> None:
        """Start it; it answers when this returns."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), env=CLEAN, stdout=log, stderr=log)
        wait_for(self._answers, 40)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            with Client(self.endpoint, timeout=2) as client:
                client.leases()
        except UnreachableError:
            return False
        return True

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it with a signal; its status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(20)
        self.process = None
        return status

    def call(
        self, *arguments: object, stdin: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run one command against it."""
        return subprocess.run(
            [sys.executable, "-m", "dynres", *map(str, arguments)],
            env={**CLEAN, "DYNRES_CONTROLLER": self.endpoint},
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )

    def begin(self, *arguments: object) -> "subprocess.Popen[str]":
        """Start one command against it."""
        self.begun.append(
            subprocess.Popen(
                [sys.executable, "-m", "dynres", *map(str, arguments)],
                env={**CLEAN, "DYNRES_CONTROLLER": self.endpoint},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        )
        return self.begun[-1]

    def close(self) -> int:
        """End everything that was started; the controller's status."""
        for process in self.begun:
            with process:
                process.kill()
        return 0 if self.process is None else self.kill(signal.SIGTERM)


@contextmanager
def standing(folder: Path, resources: str, hosts: str) -> Iterator[Standing]:
    """A running controller; it must end cleanly."""
    made = Standing(folder, resources, hosts)
    made.start()
    try:
        yield made
    finally:
        status = made.close()
    assert status == 0, made.log.read_text()
