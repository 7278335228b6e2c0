"""The process that runs Python plugins: `… -m dynres.worker.plugin_host FD USER [FOLDER…]`.

USER `-`: the agent's own.

Requests come as frames on the socket FD (folders are added to sys.path), each run gets a thread
of its own, answers go back as frames. Only the load indices, as long as they are alone here, run
where the requests are taken: there is nobody else whom they could keep waiting. Nothing here is
trusted to end: the agent kills the whole process when a run does not.
"""

from __future__ import annotations

import _thread
import ctypes
import faulthandler
import io
import os
import sys

from dynres.worker import frames, native, plugin_find
from dynres.worker.plugin_left import Left
from dynres.worker.plugin_run import RunOutput, RunThread, items, read_file
from dynres.worker.run_marks import mark_host

TYPE_CHECKING = False  # what is imported here, and why, is said in `plugin_run`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from dynres.probe import Probe

THREADS_LIMIT: Final = 64
"""Threads that plugins may leave running in one host."""
LIGHT: Final = "load"
"""The plugin that starts no thread of `threading` and needs nothing of it."""
_CHUNK: Final = 65536
_PR_SET_PDEATHSIG: Final = 1
_SIGKILL: Final = 9


class Host:
    """Plugin instances, which stay from run to run, and the runs in flight."""

    def __init__(self, link: int) -> None:
        self._link = link
        self._sending = _thread.allocate_lock()
        self._instances: dict[str, tuple[str, dict[str, Any], Probe]] = {}
        self._lock = _thread.allocate_lock()
        self._left = Left()
        self._going: set[int] = set()
        """The numbers of the runs in flight."""
        self._runs: set[int] = set()
        """Threads of runs, by their system ids."""
        self._grown: dict[str, set[int]] = {}
        """Threads that were not there before a run of that probe, and still are."""
        self._seen: set[int] = set()
        """Threads that were there at the end of the last run, beside the main one."""

    def serve(self) -> None:
        """Take requests until the agent is gone."""
        self._send(frames.encode(("ready",)))
        decoder = frames.Decoder()
        while data := os.read(self._link, _CHUNK):
            for message in decoder.feed(data):
                self._take(message)

    def _take(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("ping",):
                self._send(frames.encode(("pong",)))
            case ("plugin", number, probe, plugin, options):
                if plugin != LIGHT:
                    # Its first import decides what the main thread is: it must be this one.
                    import threading  # noqa: F401
                alone = "threading" not in sys.modules and not self._going
                work = lambda: self._read(probe, plugin, options)  # noqa: E731
                self._start(number, probe, work, here=alone)
            case ("file", number, probe, path, limit):
                self._start(number, probe, lambda: read_file(path, limit))
            case ("forget", probe):
                self._instances.pop(probe, None)
                if not self._grown.get(probe):  # else it has threads here, as before
                    self._grown.pop(probe, None)

    def _start(
        self, number: int, probe: str, work: Callable[[], Any], *, here: bool = False
    ) -> None:
        def known_work() -> Any:
            self._runs.add(_thread.get_native_id())
            return work()

        def done(thread: RunThread) -> None:
            status, reason, payload = thread.answer
            with self._lock:
                self._going.discard(number)
                going = set(self._going)
            self._left.end_of(number, going)
            with self._lock:
                now = self._left_threads()
                grown = self._grown.get(probe, set()) | (now - before)
                self._grown[probe] = grown
                for ids in self._grown.values():
                    ids.intersection_update(now)
                most = len(grown) == max(map(len, self._grown.values()))
            if len(now) > THREADS_LIMIT and most:
                reason = f"{len(now)} threads of plugins are left"
                status, payload = "leaking", None
            known = (number, status, reason, thread.said)
            self._answer(known, payload, threads=bool(grown), here=here)

        with self._lock:
            # Where none was left and no run is under way, nothing can have started one since.
            before = self._left_threads() if self._going or self._seen else set()
            self._going.add(number)
        run = RunThread(known_work, done)
        if here:
            run.work()
        else:
            run.start()

    def _left_threads(self) -> set[int]:
        """Threads of this process beside the main one and those of runs."""
        tasks = {int(name) for name in os.listdir("/proc/self/task")}
        self._runs &= tasks
        self._seen = tasks - self._runs - {os.getpid()}
        return self._seen

    def _read(self, probe: str, plugin: str, options: dict[str, Any]) -> list[tuple[str, str, Any]]:
        known = self._instances.get(probe)
        if known is None or known[:2] != (plugin, options):
            self._instances.pop(probe, None)
            known = (plugin, options, plugin_find.make(plugin, options))
            self._instances[probe] = known
        return items(known[2].read())

    def _answer(
        self,
        known: tuple[int, str, str | None, bytes],
        payload: object,
        *,
        threads: bool,
        here: bool,
    ) -> None:
        """`known`: number, status, reason, what it said; `here`: the main thread says so."""
        number, _, _, said = known
        try:
            frame = frames.encode(("done", *known, payload, threads, here))
        except frames.FrameError as error:
            frame = frames.encode(("done", number, "failed", str(error), said, None, threads, here))
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        with self._sending:
            send_all(self._link, frame)


def send_all(link: int, frame: bytes) -> None:
    """Write all of it. Raises OSError when the agent is gone."""
    rest = memoryview(frame)
    while rest:
        rest = rest[os.write(link, rest) :]


def _harden(*kept: int) -> None:
    """Be the first to go when memory is short, say where a crash was.

    Keeps no descriptor but the standard ones and `kept`.
    """
    for name in os.listdir("/proc/self/fd"):
        # The descriptor of this very listing is not there any more.
        if int(name) > 2 and int(name) not in kept and os.path.lexists(f"/proc/self/fd/{name}"):
            os.close(int(name))
    faulthandler.enable(2)
    output = io.TextIOWrapper(RunOutput(), "utf-8", "backslashreplace", write_through=True)
    sys.stdout = sys.stderr = output
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            score = min(1000, int(file.read()) + 200)
            file.write(b"%d" % score)
    except (OSError, ValueError):
        pass  # no /proc, or not ours to write


def _die_with_the_agent(parent: int) -> None:
    # Forgotten by the system when the user changes.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _fault_of_user(user: str) -> str | None:
    """Be that user from now on; why it cannot be."""
    from dynres.worker.plugin_user import UserFault, become

    try:
        become(user)
    except UserFault as fault:
        return str(fault)
    return None


def main() -> None:
    """Serve until the agent closes its end; then nothing that plugins started stays either."""
    link, user, parent = int(sys.argv[1]), sys.argv[2], os.getppid()
    sys.path.extend(sys.argv[3:])
    native.one_heap()
    _harden(link)
    if "DYNRES_PLUGIN_HOST" in os.environ:
        mark_host(os.environ["DYNRES_PLUGIN_HOST"])
    fault = _fault_of_user(user) if user != "-" else None
    if fault is not None:
        send_all(link, frames.encode(("fault", fault)))
        return
    _die_with_the_agent(parent)
    native.become_subreaper()
    try:
        Host(link).serve()
    finally:
        if sys.exc_info()[0] is not None:
            import traceback

            traceback.print_exc()
        os.killpg(0, _SIGKILL)


if __name__ == "__main__":
    main()
