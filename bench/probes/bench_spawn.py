"""CPU time of a start beside os.posix_spawn: small, with 300 MB, as another user.

usage: bench_spawn.py [ROUNDS] [STARTS]

One start: a pipe, the process, its output, its end. Each figure is the CPU time of this process and
of its children. "As another user" is what a launcher of that user does: it has changed user once.
Needs root for that one.
"""

import json
import os
import pwd
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measured import built

from dynres.worker.spawn import spawn

HEAP = 300 << 20
ENV = {"PATH": os.defpath, "LANG": "C.UTF-8"}


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def one(start: Callable[[int], int]) -> None:
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = start(write)
    os.close(write)
    while os.read(read, 65536):
        pass
    os.close(read)
    os.waitpid(pid, 0)


def ways(probe: str) -> dict[str, Callable[[int], int]]:
    argv = [probe, "0"]
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return {
        "os.posix_spawn": lambda fd: os.posix_spawn(
            probe, argv, ENV, file_actions=[(os.POSIX_SPAWN_DUP2, fd, 1)]
        ),
        "dynres": lambda fd: spawn(probe, argv, ENV, [null, fd, fd]),
    }


def timed(probe: str, starts: int) -> dict[str, float]:
    figures = {}
    for name, start in ways(probe).items():
        one(start)
        before = cpu()
        for _ in range(starts):
            one(start)
        figures[name] = (cpu() - before) / starts
    return figures


def in_child(work: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What `work` returns in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    return dict(json.loads(text))


def as_nobody(work: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
    def changed() -> dict[str, float]:
        user = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        return work()

    return changed


def with_heap(work: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
    def filled() -> dict[str, float]:
        heap = [bytearray(4096) for _ in range(HEAP // 4096)]
        figures = work()
        heap.clear()
        return figures

    return filled


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    starts = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bench-spawn-") as name:
        Path(name).chmod(0o755)
        built(Path(name))
        probe = f"{name}/probe"

        def work() -> dict[str, float]:
            return timed(probe, starts)

        for _ in range(rounds):
            plain = in_child(work)
            full = in_child(with_heap(work))
            pairs = {
                "small (at most 1.3)": plain["dynres"] / plain["os.posix_spawn"],
                "with 300 MB (at most 1.3)": full["dynres"] / full["os.posix_spawn"],
            }
            if os.geteuid() == 0:
                other = in_child(as_nobody(work))["dynres"]
                pairs["as another user (at most 4)"] = other / plain["os.posix_spawn"]
            for what, ratio in pairs.items():
                ratios.setdefault(what, []).append(ratio)
    medians = {what: round(statistics.median(all_), 3) for what, all_ in ratios.items()}
    print(json.dumps({"rounds": rounds, "start / os.posix_spawn": medians}, indent=2))


if __name__ == "__main__":
    main()
