"""No bad probe hurts the agent, its heartbeat, or another probe. Each line is a kind of fault."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_process import marked
from beside import ROOT, Bad, beside, run_beside, shell

sys.path.append(str(Path(__file__).parents[1] / "launcher"))
from hung_files import hung_files

GRACE = 1.0

TIME = (
    Bad("sleeps past its timeout", ("timeout",), shell("sleep 600"), 1.0),
    Bad(
        "ignores SIGTERM",
        ("timeout",),
        shell("trap '' TERM; while :; do sleep 600; done"),
        1.0 + GRACE,
    ),
    Bad("stops itself", ("timeout",), shell("kill -STOP $$; echo 1"), 1.0 + GRACE),
    Bad("takes three intervals", ("ok",), shell("sleep 3; echo 1", timeout="10s"), 3.0),
    Bad("double-forks with setsid", ("ok",), shell("(setsid sleep 600 &) ; echo 1")),
    Bad(
        "double-forks with a cleared environment",
        ("ok",),
        shell("(env -i WORD=$WORD setsid sleep 600 &) ; echo 1"),
    ),
    Bad("exits at once but a child keeps stdout open", ("ok",), shell("sleep 600 & echo 1")),
    Bad(
        "a child that does not stop forking",
        ("ok",),
        shell("(setsid sh -c 'while :; do sleep 0.01; done' &) ; echo 1"),
    ),
)

OUTPUT = (
    Bad(
        "prints without end",
        ("output_too_large",),
        shell("yes 1234567890", timeout="10s"),
        reason="bytes on stdout",
    ),
    Bad(
        "one line of 70 KB",
        ("output_too_large",),
        shell("head -c 70000 /dev/zero | tr '\\0' 1"),
    ),
    Bad(
        "1 MB on stderr before one line on stdout",
        ("ok",),
        shell("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo 1", timeout="10s"),
        values=(1.0,),
    ),
    Bad("half a line, then silence", ("timeout",), shell("printf 1; sleep 600")),
    Bad(
        "bytes that are not UTF-8",
        ("bad_output",),
        shell("printf 'caf\\351\\n'"),
        type="string",
    ),
    Bad("NUL", ("bad_output",), shell("printf '1\\0002\\n'")),
    Bad("a byte order mark", ("ok", "bad_output"), shell("printf '\\357\\273\\2771\\n'")),
    Bad("CRLF", ("ok",), shell("printf '12\\r\\n'"), values=(12.0,)),
    Bad("no final newline", ("ok",), shell("printf 12"), values=(12.0,)),
    Bad("exits 0 with nothing", ("bad_output",), shell("exit 0"), reason="no data"),
    Bad("exits 1 with good output", ("failed",), shell("echo 1; exit 1"), reason="status 1"),
    Bad("dies by a signal", ("killed",), shell("echo 1; kill -SEGV $$"), reason="signal 11"),
    Bad("closes all it has", ("bad_output", "timeout"), shell("exec <&- >&- 2>&-; sleep 600")),
)

PLUGINS = (
    Bad("an endless loop", ("timeout",), {"plugin": "loop", "timeout": "1s"}, 1.0),
    Bad("a C call that holds the lock", ("timeout",), {"plugin": "regex", "timeout": "1s"}, 1.0),
    Bad("blocks", ("timeout",), {"plugin": "sleep", "timeout": "1s"}, 1.0),
    Bad("prints to descriptor 1", ("ok",), {"plugin": "loud", "timeout": "20s"}, 5.0),
    Bad("calls os._exit", ("failed",), {"plugin": "exit", "timeout": "20s"}, 5.0, "exit status 3"),
    Bad("crashes its process", ("killed",), {"plugin": "crash", "timeout": "20s"}, 5.0),
    Bad("leaks threads", ("failed",), {"plugin": "leak_threads", "timeout": "20s"}, 5.0, "threads"),
)


def program(folder: Path, text: bytes, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "probe"
    path.write_bytes(text)
    path.chmod(mode)
    return path


def files(home: Path) -> tuple[Bad, ...]:
    """Faults of the file that is to be run."""
    script = b"#!/bin/sh\necho 1\n"
    base = home / "probes"
    open_folder = base / "open"
    program(open_folder, script)
    open_folder.chmod(0o777)
    cases = {
        "no `#!`": (program(base / "a", b"echo 1\n"), "start_error", "no `#!` line"),
        "CRLF in the `#!` line": (
            program(base / "b", b"#!/bin/sh\r\necho 1\r\n"),
            "start_error",
            "CRLF",
        ),
        "not executable": (program(base / "c", script, 0o644), "start_error", "not executable"),
        "a directory": (base, "start_error", "a folder"),
        "deleted": (base / "none", "start_error", "no such file"),
        "no interpreter": (
            program(base / "d", b"#!/no/such/shell\n"),
            "start_error",
            "not found",
        ),
        "writable by others": (program(base / "e", script, 0o777), "refused", "mode 0777"),
        "in a folder writable by others": (open_folder / "probe", "refused", "mode 0777"),
    }
    return tuple(
        Bad(fault, (outcome,), {"command": [str(path)], "timeout": "5s"}, 1.0, reason)
        for fault, (path, outcome, reason) in cases.items()
    )


def judge(home: Path, bad: tuple[Bad, ...]) -> None:
    async def main() -> None:
        with beside(home) as bench:
            await run_beside(bench, bad)

    asyncio.run(main())


def test_probes_that_take_too_long_or_leave_something(tmp_path):
    judge(tmp_path, TIME)


def test_probes_that_print_what_they_must_not(tmp_path):
    judge(tmp_path, OUTPUT)


def test_plugins_that_break_their_process(tmp_path):
    judge(tmp_path, PLUGINS)


def test_programs_that_cannot_or_must_not_be_run(tmp_path):
    tmp_path.chmod(0o755)
    judge(tmp_path, files(tmp_path))


def test_a_program_that_is_replaced_or_written_while_it_runs(tmp_path):
    path = program(tmp_path / "p", b"#!/bin/sh\nsleep 0.3; echo 1\n")
    busy = tmp_path / "p" / "busy"
    busy.write_bytes(Path("/bin/true").read_bytes())
    busy.chmod(0o755)

    async def main() -> None:
        with beside(tmp_path) as bench:
            replaced = {"command": [str(path)], "timeout": "5s"}
            bad = (
                Bad("replaced while running", ("ok",), replaced, values=(1.0, 2.0)),
                Bad(
                    "open for writing",
                    ("start_error",),
                    {"command": [str(busy)], "timeout": "5s"},
                    reason="text file busy",
                ),
            )
            running = asyncio.create_task(run_beside(bench, bad))
            await bench.stub.until(lambda: "bad0" in bench.stub.runs)
            new = path.with_name("new")
            new.write_bytes(b"#!/bin/sh\necho 2\n")
            new.chmod(0o755)
            new.replace(path)
            await running

    with busy.open("ab"):
        asyncio.run(main())


@pytest.mark.skipif(not ROOT, reason="mounts")
def test_file_systems_that_hang_or_are_full(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", full], check=True)
    try:
        with (
            hung_files(tmp_path / "hung") as hung,
            hung_files(tmp_path / "stuck", unkillable=True) as stuck,
        ):
            start = {"command": [f"{hung.folder}/probe"], "timeout": "1s"}
            read = shell(f"exec cat {stuck.folder}/file")
            bad = (
                Bad("a start that hangs", ("stuck",), start, 1.0, "start does not come back"),
                Bad("cannot be killed", ("stuck",), read, 1.0 + 2 * GRACE, "cannot be killed"),
                Bad(
                    "fills its file system",
                    ("failed",),
                    shell(f"exec cat /dev/zero >{shlex.quote(str(full))}/x", timeout="5s"),
                    1.0,
                    "No space left",
                ),
            )

            async def main() -> None:
                with beside(tmp_path) as bench:
                    timer = asyncio.get_running_loop().call_later(9.0, let_go, hung, stuck)
                    await run_beside(bench, bad)
                    timer.cancel()

            asyncio.run(main())
    finally:
        subprocess.run(["umount", "-l", full], check=True)


def let_go(*folders):
    for folder in folders:
        folder.let_go()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["hang", "die"])
def test_helper_processes_that_hang_or_die_are_replaced_and_the_probes_go_on(tmp_path, number):
    async def main() -> None:
        with beside(tmp_path) as bench:
            await bench.all_good(0.0)
            old = helpers(bench)
            since = time.monotonic()
            for pid in old:
                os.kill(pid, number)
            # Noticed within 2 s, then new ones have to start.
            await bench.all_good(since + 1.0)
            bench.check_others(since, time.monotonic(), lost=3.0)
            # A host in which a run was cut off is replaced by the next run: its own went on apart.
            await bench.agent.until(lambda: not {0, *old} & set(helpers(bench)), 2.0)
            await bench.agent.until(lambda: not any(map(alive, old)), 5.0)

    asyncio.run(main())


def helpers(bench):
    return [bench.helper(kind) for kind in ("launcher", "plugin_host")]


def alive(pid):
    return Path(f"/proc/{pid}").exists()


def test_an_agent_killed_by_sigkill_leaves_no_probe_and_the_next_starts_no_second_copy(tmp_path):
    async def main() -> None:
        with beside(tmp_path) as bench:
            await bench.all_good(0.0)
            stays = Bad("stays", ("ok",), shell(f"exec sleep 600 # {bench.word}", timeout="60s"))
            bench.declare((stays,))
            bench.agent.send(signal.SIGHUP)
            await bench.agent.until(bench.left)
            bench.agent.close()
            deadline = time.monotonic() + 1.0 + 1.5
            while bench.left():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            bench.start()
            begun = time.monotonic()
            while time.monotonic() < begun + 1.5 or not bench.left():
                assert len(marked(bench.word)) <= 1
                await asyncio.sleep(0.02)
            await bench.agent.stop()
            assert bench.left() == []

    asyncio.run(main())
