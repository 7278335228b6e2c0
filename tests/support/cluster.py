"""A real controller and real agents on this machine, for tests: started by the command line."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dynres.cli.scratch import free_ports

T = TypeVar("T")


def free_port() -> int:
    """A TCP port that nobody uses now."""
    return free_ports(1)[0]


def wait_for(what: Callable[[], T | None], seconds: float = 15.0) -> T:
    """Ask until the answer is true, and return it; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def dynres(
    *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "dynres", *arguments],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@dataclass
class Daemon:
    """A started agent or controller and where its log goes."""

    process: "subprocess.Popen[bytes]"
    log: Path
    metrics: str

    def stop(self) -> int:
        """SIGTERM, and the exit status; the log is shown when it is not a clean end."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not stop:\n{self.log.read_text()}") from None


@dataclass
class Cluster:
    """One controller and its agents over one configuration folder."""

    folder: Path
    home: Path
    agent_port: int = field(default_factory=free_port)
    client_port: int = field(default_factory=free_port)
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """The environment in which commands find this cluster."""
        return {
            "DYNRES_CONFIG": str(self.folder),
            "DYNRES_CONTROLLER": f"tcp://127.0.0.1:{self.client_port}",
            "DYNRES_RUNTIME": str(self.home / "run"),
        }

    def _start(self, name: str, *arguments: str, under: Sequence[str] = ()) -> Daemon:
        metrics = f"127.0.0.1:{free_port()}"
        if "--metrics" not in arguments:
            arguments = (*arguments, "--metrics", metrics)
        log = self.home / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*under, sys.executable, "-m", "dynres", *arguments],
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.daemons[name] = Daemon(process, log, metrics)
        return self.daemons[name]

    def start_controller(self, *arguments: str, under: Sequence[str] = ()) -> Daemon:
        """Start the controller, by the command `under`; it listens when this returns."""
        state = str(self.home / "state")
        daemon = self._start("controller", "controller", "--state", state, *arguments, under=under)
        wait_for(lambda: self.call("hosts").returncode == 0 or daemon.process.poll() is not None)
        assert daemon.process.poll() is None, daemon.log.read_text()
        return daemon

    def start_agent(self, host: str, *arguments: str, under: Sequence[str] = ()) -> Daemon:
        """Start the agent of `host`, by the command `under`; returns at once."""
        own = ("agent", "--host", host, "--controller", f"tcp://127.0.0.1:{self.agent_port}")
        return self._start(host, *own, *arguments, under=under)

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one command against this cluster."""
        return dynres(*arguments, env=self.env)

    def ask(self, *arguments: str) -> Any:
        """Run one command with `--json` and return its document."""
        done = self.call(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def logs(self) -> str:
        """All logs, for a failed assertion."""
        return "\n".join(f"== {n}\n{d.log.read_text()}" for n, d in self.daemons.items())


@contextmanager
def cluster(source: Path, home: Path, controller: str = "") -> Iterator[Cluster]:
    """A cluster over a copy of the folder `source`; `controller` adds to controller.yaml."""
    folder = home / "config"
    shutil.copytree(source, folder)
    made = Cluster(folder=folder, home=home)
    (folder / "controller.yaml").write_text(
        f"agent_port: {made.agent_port}\nclient_port: {made.client_port}\n"
        f"feed_port: 0\n{controller}"
    )
    try:
        yield made
    finally:
        codes = {name: daemon.stop() for name, daemon in reversed(made.daemons.items())}
    assert set(codes.values()) <= {0}, f"exit codes {codes}\n{made.logs()}"
