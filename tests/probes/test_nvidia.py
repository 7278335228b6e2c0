"""The nvidia probe: reports of nvidia-smi, and hosts without a GPU."""

import os

import pytest

from dynres.probe import NOT_HERE, ProbeError
from dynres_probes.nvidia import Gpu, Nvidia, Options, measure, no_driver, parse

TWO = """\
0, NVIDIA A100-SXM4-40GB, 97, 40960, 38012, 2948, 61
1, NVIDIA A100-SXM4-40GB, 0, 40960, 4, 40956, 33
"""
ODD = """\
0, "Tesla T4, rev 2", [N/A], 15360, 2, 15358, [Not Supported]
1, Tesla T4, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]
2, Tesla T4, ERR!, 15360, 100, 15260, 40
"""


def read(text: str, **options):
    return measure(parse(text), Options(**options))


def test_a_report_gives_each_gpu():
    assert parse(TWO)[1] == Gpu(1, "NVIDIA A100-SXM4-40GB", 0, 40960, 4, 40956, 33)


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ("gpus", 2),
        ("idle", 1),
        ("utilization", 48.5),
        ("memory_total", 81920),
        ("memory_used", 38016),
        ("memory_free", 43904),
        ("memory_free_most", 40956),
        ("temperature", 61),
        ("model", "NVIDIA A100-SXM4-40GB"),
    ],
)
def test_each_value_is_over_all_gpus(what, want):
    assert read(TWO, what=(what,)) == {what: want}


def test_only_the_gpus_asked_for_count_and_one_that_is_missing_is_a_failure():
    assert read(TWO, what=("gpus", "utilization"), gpus=(0,)) == {"gpus": 1, "utilization": 97}
    with pytest.raises(ProbeError, match="no GPU 2, 3; there are 2"):
        read(TWO, gpus=(3, 1, 2))


def test_what_the_driver_does_not_say_is_left_out_and_never_0():
    assert read(ODD, what=("utilization", "idle", "temperature", "memory_free")) == {
        "utilization": None,
        "idle": 0,
        "temperature": 40,
        "memory_free": 30618,
    }
    assert parse(ODD)[0].name == "Tesla T4, rev 2"


@pytest.mark.parametrize("text", ["nonsense", "0, a, 1", "x, a, 1, 2, 3, 4, 5"])
def test_a_report_in_another_shape_is_a_failure(text):
    with pytest.raises(ProbeError, match="expected 7 fields, got"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure",
        "No devices were found",
        "NVIDIA-SMI couldn't find libnvidia-ml.so library: NVML library not found",
    ],
)
def test_no_driver_is_known_by_its_words(text):
    assert no_driver(text)
    assert not no_driver(TWO)


@pytest.fixture
def smi(tmp_path, monkeypatch):
    def make(body: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return make


def test_a_host_without_the_tool_or_the_driver_is_not_here(smi):
    probe = Nvidia(Options(what=("gpus", "idle")))
    assert probe.read() == {"gpus": NOT_HERE, "idle": NOT_HERE}
    smi("echo 'No devices were found'; exit 6")
    assert probe.read() == {"gpus": NOT_HERE, "idle": NOT_HERE}


def test_the_tool_is_asked_for_the_fields_that_are_read(smi):
    smi(f'case "$1" in --query-gpu=index,name,utilization.gpu,*) printf "%s" "{TWO}";; esac')
    assert Nvidia(Options(what=("gpus", "memory_free"))).read() == {"gpus": 2, "memory_free": 43904}


def test_a_tool_that_fails_says_why(smi):
    smi("echo 'Unable to determine the device handle for GPU0' ; exit 15")
    with pytest.raises(ProbeError, match="nvidia-smi: exit status 15: Unable to determine"):
        Nvidia(Options()).read()
