"""The licence probe: reports of FlexNet and RLM in many shapes, and the tool that gives them."""

import json
import os
import pwd
import stat
import sys
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres.probe import ProbeError
from dynres_probes.flexnet import Feature, Report, parse_flexnet
from dynres_probes.licence import Licence, Options, measure, resource_name
from dynres_probes.rlm import parse_rlm

CASES = sorted((Path(__file__).parent / "licence").iterdir())
TODAY = date(2026, 11, 30)
REPORT = Report({"iris": Feature(100, 37), "demo": Feature(None, None, "Uncounted, node-locked")})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_report_gives_total_and_in_use_of_every_feature(case: Path):
    flexnet = case / "flexnet.txt"
    if flexnet.exists():
        report = parse_flexnet(flexnet.read_text())
    else:
        report = parse_rlm((case / "rlm.txt").read_text(), TODAY)
    want = json.loads((case / "want.json").read_text())
    assert {n: [f.total, f.used] for n, f in report.features.items()} == want["features"]
    assert list(report.faults) == want["faults"]


@given(st.text(alphabet=st.characters(), max_size=300))
def test_no_text_breaks_a_reader(text: str):
    parse_flexnet(text)
    parse_flexnet(f"Users of {text}")
    parse_rlm(text, TODAY)
    parse_rlm(f"\tx license pool status on h\n\tp v1\n\t\tcount: {text}", TODAY)


def test_the_values_are_named_after_feature_and_measure():
    values, remarks = measure(REPORT, ["iris"], ["total", "used", "free"])
    assert values == {"iris_total": 100, "iris_used": 37, "iris_free": 63}
    assert remarks == []


def test_a_features_name_becomes_one_that_a_resource_may_have():
    assert resource_name("111-spectre.L") == "111_spectre_L"


def test_uncounted_is_unavailable_and_never_0():
    values, remarks = measure(REPORT, ["iris", "demo"], ["used"])
    assert values == {"iris_used": 37, "demo_used": None}
    assert remarks == ["demo: Uncounted, node-locked"]


def test_a_feature_that_a_server_which_is_up_does_not_have_is_unavailable_beside_good_ones():
    values, remarks = measure(REPORT, ["iris", "gone"], ["used"])
    assert values == {"iris_used": 37, "gone_used": None}
    assert remarks == ["gone: not served"]


def test_when_no_feature_is_served_the_run_fails_with_what_there_is():
    with pytest.raises(ProbeError, match="not served: irix; served are: demo, iris"):
        measure(REPORT, ["irix"], ["used"])


def test_a_server_that_is_down_fails_the_run_in_the_servers_words():
    report = parse_flexnet((CASES[0].parent / "server_down/flexnet.txt").read_text())
    with pytest.raises(ProbeError, match=r"not served: iris; lic1: Cannot connect .*\(-15,578"):
        measure(report, ["iris"], ["used"])


def test_more_in_use_than_issued_is_0_free():
    report = Report({"iris": Feature(4, 5)})
    assert measure(report, ["iris"], ["free"])[0] == {"iris_free": 0}


@pytest.mark.parametrize(
    "options",
    [
        {"features": ()},
        {"features": ("a",), "what": ()},
        {"features": ("a",), "timeout": 0.0},
        {"features": ("a",), "command": ("x",), "server": "27000@lic1"},
    ],
)
def test_options_that_can_give_nothing_are_refused(options):
    with pytest.raises(ValueError, match=r"features|timeout|server"):
        Options(**options)


@pytest.fixture
def lmutil(tmp_path, monkeypatch):
    """A stand-in for `lmutil` (or `rlmutil`) that says which arguments it got."""

    def make(name: str, body: str) -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return make


def test_the_tool_is_asked_for_the_server_and_its_report_read(lmutil):
    used = 'echo "Users of iris:  (Total of 9 licenses issued;  Total of $# licenses in use)"; '
    lmutil("lmutil", used + "echo $* >&2")
    probe = Licence(Options(("iris",), server="27000@lic1"))
    assert probe.read() == {"iris_total": 9, "iris_used": 4}  # lmstat -a -c 27000@lic1


def test_rlms_tool_is_asked_for_rlms_report(lmutil):
    case = CASES[0].parent / "rlm_one_isv/rlm.txt"
    lmutil("rlmutil", f'[ "$1 $2" = "rlmstat -a" ] && cat {case}')
    probe = Licence(Options(("paint",), what=("free",), kind="rlm"))
    assert probe.read() == {"paint_free": 0}


def test_a_server_that_is_down_is_told_though_the_tool_exits_with_an_error(lmutil):
    case = CASES[0].parent / "server_down/flexnet.txt"
    lmutil("lmutil", f"cat {case}; exit 255")
    with pytest.raises(ProbeError, match="Cannot connect to license server"):
        Licence(Options(("iris",))).read()


def test_a_tool_that_fails_without_a_report_says_why(lmutil):
    lmutil("lmutil", "echo 'lmutil: cannot open shared object' >&2; exit 127")
    with pytest.raises(ProbeError, match="exit status 127: lmutil: cannot open shared object"):
        Licence(Options(("iris",))).read()


def test_without_the_tool_the_run_fails_with_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ProbeError, match="lmutil: no such program; name it with its path"):
        Licence(Options(("iris",))).read()


def test_a_tool_that_others_may_change_is_not_run(lmutil, tmp_path):
    lmutil("lmutil", "echo no")
    path = tmp_path / "bin/lmutil"
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    with pytest.raises(ProbeError, match=r"lmutil: owner \d+, -rwxr-xrwx"):
        Licence(Options(("iris",))).read()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_a_tool_of_another_owner_is_run_where_that_one_is_trusted(lmutil, tmp_path):
    lmutil("lmutil", "echo 'Users of iris:  (Uncounted, node-locked)'")
    os.chown(tmp_path / "bin/lmutil", pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(ProbeError, match="chown and chmod"):
        Licence(Options(("iris",), what=("used",))).read()
    assert Licence(Options(("iris",), what=("used",), owners=("nobody",))).read() == {
        "iris_used": None
    }
    with pytest.raises(ProbeError, match="owners: no such user: nobody-here"):
        Licence(Options(("iris",), owners=("nobody-here",))).read()


def test_the_probe_imports_little():
    code = "import sys, dynres_probes.licence; print(len({'asyncio', 'psutil'} & {*sys.modules}))"
    done = os.popen(f'{sys.executable} -c "{code}"')
    assert done.read() == "0\n"
    assert done.close() is None
