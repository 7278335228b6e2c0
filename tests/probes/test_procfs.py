"""What is read out of the text of /proc, on the texts of several kernels."""

import json
from pathlib import Path

import pytest

from dynres_probes import procfs

KERNELS = sorted((Path(__file__).parent / "proc").iterdir())


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.name)
def test_the_texts_of_each_kernel_give_the_expected_numbers(kernel: Path):
    want = json.loads((kernel / "expected.json").read_text())
    text = {path.name: path.read_text() for path in kernel.iterdir()}
    assert procfs.runnable_tasks(text["loadavg"]) == want["runnable"]
    assert list(procfs.cpu_times(text["stat"])) == want["cpu"]
    assert list(procfs.memory(text["meminfo"])) == want["memory"]
    assert procfs.swapped_pages(text["vmstat"]) == want["swapped"]
    assert procfs.disk_bytes(text["diskstats"], want["disks"]) == want["disk_bytes"]


def test_guest_time_counts_once_because_it_stands_in_user_too():
    times = procfs.cpu_times("cpu  100 10 20 1000 5 1 2 3 90 9\n")
    assert times == (100, 10, 20, 1000, 5, 1, 2, 3)


def test_a_kernel_without_a_steal_field_has_none_stolen():
    assert procfs.cpu_times("cpu 1 2 3 4 5 6 7\n") == (1, 2, 3, 4, 5, 6, 7, 0)


def test_a_multipath_disk_whose_own_counters_run_is_not_counted_with_its_paths():
    lines = (
        " 259 1 nvme0c0n1 1 0 800 0 0 0 0 0 0 0 0\n"
        " 259 2 nvme0c1n1 1 0 100 0 0 0 0 0 0 0 0\n"
        " 259 0 nvme0n1 2 0 900 0 0 0 100 0 0 0 0\n"
    )
    disks = {"nvme0n1", "nvme0c0n1", "nvme0c1n1"}
    assert procfs.disk_bytes(lines, disks) == 1000 * 512


def test_a_command_name_with_brackets_and_blanks_does_not_shift_the_fields():
    stat = "77 (a) R (b) S 1 77 77 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 4242 0 0"
    assert procfs.task_state(stat) == "S"
    assert procfs.start_ticks(stat) == 4242


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (procfs.runnable_tasks, "0.1 0.2 0.3 7 99"),
        (procfs.cpu_times, "intr 5\n"),
        (procfs.cpu_times, "cpu 1 2 3\n"),
        (procfs.memory, "MemTotal: 5 kB\n"),
        (procfs.memory, ""),
        (procfs.swapped_pages, "pgpgin 5\n"),
    ],
)
def test_a_text_without_what_is_asked_for_is_an_error_that_names_the_file(parser, text):
    with pytest.raises(ValueError, match=r"^/proc/\w+: "):
        parser(text)
