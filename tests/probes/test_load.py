"""The 11 load indices on a /proc that the test writes, and on this machine's own."""

import math
import os
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dynres.probe import ProbeError
from dynres_probes import load, logins
from dynres_probes.load import Load
from dynres_probes.local_fs import LocalFs

INDICES = {"r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem"}


class Machine:
    """A made-up machine: its files under /proc, its clocks."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        shutil.copytree(Path(__file__).parent / "proc/linux-3.10-two-disks", self.proc)
        for disk in ("sda/device", "sdb/device", "dm-0", "loop0"):
            (folder / "block" / disk).mkdir(parents=True)
        self.thread("1", "R")
        self.now = 1000.0

    def thread(self, number: str, state: str) -> None:
        task = self.proc / "self/task" / number
        task.mkdir(parents=True, exist_ok=True)
        (task / "stat").write_text(f"{number} (python3) {state} 1 1 1")

    def write(self, name: str, text: str) -> None:
        (self.proc / name).write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(load, "PROC", made.proc)
    monkeypatch.setattr(load, "SYS_BLOCK", tmp_path / "block")
    monkeypatch.setattr(logins, "UTMP", tmp_path / "utmp")
    monkeypatch.setattr(logins, "LOGIND", tmp_path / "sessions")
    clocks = SimpleNamespace(
        monotonic=lambda: made.now,
        clock_gettime=lambda _: made.now,
        CLOCK_BOOTTIME=time.CLOCK_BOOTTIME,
        time=time.time,
    )
    monkeypatch.setattr(load, "time", clocks)
    return made


def plain(values):
    """Without the reasons of what is not there."""
    return {name: None if isinstance(value, tuple) else value for name, value in values.items()}


def test_a_real_machine_gives_all_indices_and_plausible_numbers():
    probe = Load()
    first, second = plain(probe.read()), plain(probe.read())
    assert set(first) == set(second) == INDICES
    assert first["ut"] is None
    assert first["io"] is None
    assert all(value is None or value >= 0 for value in second.values())
    assert all(isinstance(value, float) for value in second.values() if value is not None)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    assert 0 < second["mem"] <= memory


def test_the_first_sample_of_a_rate_is_unavailable_and_not_0(machine: Machine):
    values = Load().read()
    missing = {name: value for name, value in values.items() if isinstance(value, tuple)}
    assert missing == dict.fromkeys(("ut", "pg", "io"), (None, "a rate needs a second sample"))


def test_this_process_is_left_out_of_the_runnable_tasks(machine: Machine):
    assert plain(Load().read())["r15s"] == 4.0
    machine.thread("2", "R")
    machine.thread("3", "S")
    assert plain(Load().read())["r15s"] == 3.0


def test_a_count_that_another_thread_made_smaller_does_not_go_below_0(machine: Machine):
    machine.write("loadavg", "0.00 0.00 0.00 0/80 9\n")
    assert plain(Load().read())["r1m"] == 0.0


def test_the_run_queue_is_averaged_over_15_s_1_min_and_15_min(machine: Machine):
    probe = Load()
    plain(probe.read())
    machine.write("loadavg", "0 0 0 1/80 9\n")
    machine.now += 5
    values = plain(probe.read())
    for name, period in {"r15s": 15, "r1m": 60, "r15m": 900}.items():
        assert values[name] == pytest.approx(4 * math.exp(-5 / period), abs=1e-3)


def test_busy_is_every_field_but_idle_and_iowait(machine: Machine):
    probe = Load()
    machine.write("stat", "cpu  0 0 0 0 0 0 0 0 0 0\n")
    plain(probe.read())
    machine.write("stat", "cpu  10 10 10 30 10 10 10 10 5 5\n")
    machine.now += 5
    assert plain(probe.read())["ut"] == pytest.approx(0.6)


def test_a_cpu_counter_that_goes_backwards_skips_that_sample(machine: Machine):
    probe = Load()
    for line in ("0 0 0 0 0 0 0 0", "50 0 0 50 0 0 0 0", "99 0 0 40 0 0 0 0"):
        machine.write("stat", f"cpu  {line}\n")
        machine.now += 5
        value = plain(probe.read())["ut"]
    assert value == 0.5


def test_paging_is_pages_in_plus_out_a_second(machine: Machine):
    probe = Load()
    plain(probe.read())
    machine.write("vmstat", "pswpin 1210\npswpout 3440\n")
    machine.now += 5
    assert plain(probe.read())["pg"] == 10.0


def test_without_swap_both_swap_indices_are_0_at_once(machine: Machine):
    text = (machine.proc / "meminfo").read_text()
    machine.write("meminfo", text.replace("2097148", "0").replace("1048576", "0"))
    (machine.proc / "vmstat").unlink()
    values = plain(Load().read())
    assert (values["swp"], values["pg"]) == (0.0, 0.0)


def test_io_is_kilobytes_a_second_of_whole_disks(machine: Machine):
    probe = Load()
    plain(probe.read())
    text = (machine.proc / "diskstats").read_text()
    machine.write("diskstats", text.replace("sda 1000 10 20000", "sda 1000 10 21000"))
    machine.now += 5
    assert plain(probe.read())["io"] == 100.0


def test_a_disk_that_leaves_makes_no_negative_rate(machine: Machine):
    probe = Load()
    plain(probe.read())
    lines = (machine.proc / "diskstats").read_text().splitlines(keepends=True)
    machine.write("diskstats", "".join(line for line in lines if " sda " not in line))
    machine.now += 5
    assert plain(probe.read())["io"] is None


def test_memory_and_swap_are_in_megabytes_of_2_to_the_20(machine: Machine):
    values = plain(Load().read())
    assert (values["mem"], values["swp"]) == (2048.0, 1024.0)


def test_tmp_is_what_ordinary_users_can_still_write(machine: Machine):
    room = os.statvfs("/tmp")
    want = room.f_bavail * room.f_frsize / 2**20
    assert plain(Load().read())["tmp"] == pytest.approx(want, rel=0.2)


@pytest.mark.parametrize(
    ("file", "lost"),
    [
        ("loadavg", {"r15s", "r1m", "r15m"}),
        ("stat", {"ut"}),
        ("meminfo", {"mem", "swp", "pg"}),
        ("vmstat", {"pg"}),
        ("diskstats", {"io"}),
    ],
)
def test_one_index_that_cannot_be_read_leaves_the_others(machine: Machine, file, lost, capfd):
    probe = Load()
    plain(probe.read())
    machine.now += 5
    plain(probe.read())
    (machine.proc / file).unlink()
    machine.now += 5
    said = probe.read()
    values = plain(said)
    assert all(file in said[name][1] for name in lost)
    assert {name for name, value in values.items() if value is None} - {"ut", "pg"} <= lost
    assert lost <= {name for name, value in values.items() if value is None}
    assert file in capfd.readouterr().err


def test_the_same_reason_is_told_once_and_not_at_every_run(machine: Machine, capfd):
    (machine.proc / "stat").unlink()
    probe = Load()
    plain(probe.read())
    plain(probe.read())
    assert capfd.readouterr().err.count("ut:") == 1


def test_when_nothing_at_all_can_be_read_the_run_fails_and_says_why(machine: Machine, monkeypatch):
    def gone(*_: object) -> object:
        raise OSError("gone")

    monkeypatch.setattr(load.os, "statvfs", gone)
    monkeypatch.setattr(logins.Logins, "read", gone)
    shutil.rmtree(machine.proc)
    with pytest.raises(ProbeError, match="no load index can be read"):
        plain(Load().read())


def test_a_tmp_that_does_not_answer_costs_only_that_index_and_only_one_thread(
    machine: Machine, monkeypatch, capfd
):
    asked, answers = [], threading.Event()

    def hang(path: str) -> os.statvfs_result:
        asked.append(path)
        answers.wait()
        return os.statvfs_result([1, 2**20, 0, 0, 3, 0, 0, 0, 0, 0])

    monkeypatch.setattr(load, "PATIENCE", 0.05)
    monkeypatch.setattr(load.os, "statvfs", hang)
    monkeypatch.setattr(LocalFs, "sure", lambda _: False)
    probe = Load()
    for _ in range(3):
        values = plain(probe.read())
        assert values["tmp"] is None
        assert values["mem"] == 2048.0
    assert asked == ["/tmp"]
    assert "tmp: /tmp: no answer within 0.05 s" in capfd.readouterr().err
    answers.set()
    while (free := plain(probe.read())["tmp"]) is None:
        pass
    assert free == 3.0


def test_a_machine_that_keeps_no_logins_has_no_users(machine: Machine):
    assert plain(Load().read())["ls"] == 0.0


def test_users_are_counted_by_name_and_not_by_terminal(machine: Machine, monkeypatch):
    people = [logins.Login(name, ()) for name in ("ada", "ada", "bob")]
    monkeypatch.setattr(logins.Logins, "read", lambda _: people)
    assert plain(Load().read())["ls"] == 2.0


def test_idle_time_counts_from_the_agents_start_when_nobody_was_seen(machine: Machine):
    folder = machine.proc / str(os.getppid())
    folder.mkdir()
    start = int(400 * os.sysconf("SC_CLK_TCK"))
    (folder / "stat").write_text(f"1 (agent) S {'0 ' * 18}{start} 0 0")
    assert plain(Load().read())["it"] == 10.0


def test_idle_time_is_minutes_since_the_newest_use_of_any_terminal(
    machine: Machine, monkeypatch, tmp_path
):
    used = {"pts0": 600.0, "pts1": 120.0}
    for name, ago in used.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - ago, 0))
    people = [logins.Login("ada", (str(tmp_path / name),)) for name in used]
    monkeypatch.setattr(logins.Logins, "read", lambda _: people)
    assert plain(Load().read())["it"] == pytest.approx(2.0, abs=0.1)
