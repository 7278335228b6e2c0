"""Starts one variant of a bench in a cgroup of its own and tells its CPU, PSS, run instants.

Needs root and either the cpuacct hierarchy of cgroup v1 or cgroup v2.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
OPEN_FILES = 1024
"""The usual soft limit; some peers close every descriptor up to it in each child."""


def built(folder: Path) -> None:
    """Compile the C programs of this folder into `folder`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("needs a C compiler (Debian: apt-get install gcc libc6-dev)")
    for source in HERE.glob("*.c"):
        static = ["-static"] if source.stem == "probe" else []
        target = folder / source.stem
        subprocess.run([compiler, "-O2", "-w", *static, "-o", target, source], check=True)


class Account:
    """A cgroup that counts the CPU time of all that runs in it."""

    def __init__(self, name: str) -> None:
        old = Path("/sys/fs/cgroup/cpuacct")
        self._old = old.is_dir()
        self.folder = (old if self._old else Path("/sys/fs/cgroup")) / name
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise SystemExit(f"needs root and a cgroup that counts CPU time: {error}") from None

    def seconds(self) -> float:
        if self._old:
            return int((self.folder / "cpuacct.usage").read_text()) / 1e9
        first = (self.folder / "cpu.stat").read_text().split()
        return int(first[first.index("usage_usec") + 1]) / 1e6

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text("0")

    def end(self) -> None:
        """End everything in it, gently at first, and remove it."""
        for turn in range(60):
            pids = self.pids()
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM if turn < 20 else signal.SIGKILL)
            time.sleep(0.1)
        time.sleep(0.1)
        self.folder.rmdir()


def machine_seconds() -> float:
    """CPU seconds that all processes of this machine have used."""
    fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def pss(pid: int) -> int:
    """KiB; 0 for a process that is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@dataclass(frozen=True)
class Window:
    """What a variant used between two instants (CLOCK_REALTIME)."""

    begun: float
    ended: float
    cpu: float
    foreign: float
    """CPUs that the rest of the machine used meanwhile."""
    pss_kb: int


def measure(
    argv: Sequence[str | Path],
    *,
    account: Account,
    warm: float,
    window: float,
    probes: Sequence[Path] = (),
    env: dict[str, str] | None = None,
    output: Path,
) -> Window:
    """Let `argv` warm up and look at it for `window` seconds; `probes` are not in its PSS."""

    def enter() -> None:
        account.enter()
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        os.setpgid(0, 0)
        os.chdir("/")

    with output.open("wb") as log:
        process = subprocess.Popen(
            list(map(str, argv)),
            preexec_fn=enter,  # noqa: PLW1509  (no threads here)
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(env or {})},
        )
    try:
        time.sleep(warm)
        before = (time.time(), account.seconds(), machine_seconds())
        time.sleep(window)
        after = (account.seconds(), time.time(), machine_seconds())
        if process.poll() is not None:
            raise RuntimeError(f"it ended: {output.read_text()[-2000:]}")
        memory = sum(pss(pid) for pid in account.pids() if not _is_probe(pid, probes))
    finally:
        account.end()
        process.wait()
    cpu = after[0] - before[1]
    foreign = (after[2] - before[2] - cpu) / (after[1] - before[0])
    return Window(before[0], after[1], cpu, foreign, memory)


def _is_probe(pid: int, probes: Sequence[Path]) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink() in probes
    return True


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass(frozen=True)
class Runs:
    """When the probes of one variant ran, out of the log that they write themselves."""

    count: int
    late_p50_ms: float
    late_p99_ms: float
    """Behind each probe's own earliest phase."""
    period_error: float
    """How far the mean period of a probe is from one second, at worst, as a share."""


def runs_in(log: Path, window: Window) -> Runs:
    by_probe: dict[str, list[float]] = {}
    for line in log.read_text().splitlines():
        probe, instant = line.split()
        if window.begun <= float(instant) < window.ended:
            by_probe.setdefault(probe, []).append(float(instant))
    late: list[float] = []
    periods: list[float] = []
    for instants in by_probe.values():
        instants.sort()
        phases = [t - instants[0] - round(t - instants[0]) for t in instants]
        late += [phase - min(phases) for phase in phases]
        if len(instants) > 2:
            slots = round(instants[-1] - instants[0])
            periods.append((instants[-1] - instants[0]) / slots)
    error = abs(sum(periods) / len(periods) - 1) if periods else float("nan")
    return Runs(
        sum(map(len, by_probe.values())),
        quantile(late, 0.5) * 1000,
        quantile(late, 0.99) * 1000,
        error,
    )
