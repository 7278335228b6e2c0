"""`dynres resolve` on folders of files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynres.cli.main import run

CASE = Path(__file__).parent.parent / "cases" / "xce"

RESOURCES = """\
resources:
  - name: quota
    flags: [consumable]
    resourcemap:
      - {value: 10.5, location: [default]}
      - {value: 7, location: ["node[2-3]", node10], name: some}
  - name: os
    type: string
    resourcemap:
      - {value: "007", location: [all, ~node1]}
  - name: licence
    flags: [release, shared]
    interval: 1m
    measures: total
    probe: {command: [/bin/echo, "5"]}
    resourcemap:
      - {location: ["@eda"], reporter: [login1], capacity: 12}
      - {location: [others], reporter: [login1]}
  - name: site
    type: string
    flags: [global]
    resourcemap:
      - {value: north}
  - name: busy
    interval: 5
    order: increasing
    probe: {command: [/bin/echo, "5"]}
    resourcemap:
      - {location: [node1, "node[2-3]"]}
"""
HOSTS = """\
groups: {eda: ["node[1-2]", login1]}
hosts:
  - {name: "node[1-3]"}
  - {name: node10, resource: [{name: spare, value: 1}]}
  - {name: login1, worker: false}
"""


def folder(tmp_path: Path, **files: str) -> str:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return str(tmp_path)


def resolve(capsys: pytest.CaptureFixture[str], path: str) -> Any:
    assert run(["resolve", "--config", path, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_xces_shapes_resolve_to_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    found = resolve(capsys, str(CASE))
    expected = json.loads((CASE / "expected.json").read_text())
    assert found["static"] == expected["static"]
    assert found["dynamic"] == expected["dynamic"]
    places = [pool.pop("source") for pool in found["pools"]]
    assert found["pools"] == expected["pools"]
    assert places == [f"resources.yaml:{line}:9" for line in (28, 46, 47)]


@pytest.fixture(name="whole")
def _whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    resources = RESOURCES + "  - name: spare\n"
    return resolve(capsys, folder(tmp_path, resources=resources, hosts=HOSTS))


def test_static_holds_the_values_of_every_worker_host_without_loss(whole: Any) -> None:
    assert whole["static"] == {
        "node1": {"quota": 10.5},
        "node2": {"quota": 7, "os": "007"},
        "node3": {"quota": 7, "os": "007"},
        "node10": {"quota": 7, "os": "007", "spare": 1},
    }
    assert list(whole["static"]) == ["node1", "node2", "node3", "node10"]


def test_pools_hold_every_shared_instance_in_file_order(whole: Any) -> None:
    assert [(p["resource"], p["capacity"], p["members"]) for p in whole["pools"]] == [
        ("licence", 12, ["node1", "node2"]),
        ("licence", None, ["node3", "node10"]),
        ("site", "north", ["node1", "node2", "node3", "node10"]),
    ]
    assert whole["pools"][0]["source"] == "resources.yaml:17:9"


def test_dynamic_holds_the_hosts_that_measure_their_own_value(whole: Any) -> None:
    assert whole["dynamic"] == {"busy": ["node1", "node2", "node3"]}


def test_resources_hold_types_flags_and_the_two_fields_that_xce_reserves(whole: Any) -> None:
    assert whole["resources"]["quota"] == {
        "valtype": "numeric",
        "ordtype": "decreasing",
        "flags": ["consumable"],
        "interval": None,
        "hbased_defined": 10.5,
        "distributions": [{"value": 7, "hosts": ["node2", "node3", "node10"]}],
    }
    licence = whole["resources"]["licence"]
    assert (licence["flags"], licence["interval"]) == (["shared", "release"], 60)
    assert licence["distributions"] == [{"value": None, "hosts": ["node1", "node2"]}]
    names = whole["resources"]["os"]["distributions"][0]["hosts"]
    assert names == ["node2", "node3", "node10"]
    assert whole["resources"]["busy"]["ordtype"] == "increasing"


def test_built_in_load_indices_are_left_out(whole: Any) -> None:
    assert list(whole["resources"]) == ["quota", "os", "licence", "site", "busy", "spare"]


def test_the_text_says_the_same_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path, resources=RESOURCES + "  - name: spare\n", hosts=HOSTS)
    assert run(["resolve", "--config", path]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["quota", "7", "-", "node[2-3,10]", "resources.yaml:6:9"] in lines
    assert ["spare", "1", "-", "node10", "hosts.yaml:4:38"] in lines
    assert ["licence", "measured", "-", "node[3,10]", "resources.yaml:18:9"] in lines
    assert ["busy", "every", "5s", "-", "node[1-3]", "resources.yaml:24:5"] in lines


def test_the_text_shows_a_value_that_waits_for_its_first_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "resources:\n  - name: r\n    resourcemap: [{value: 1, location: [default]}]\n"
    assert run(["resolve", "--config", folder(tmp_path, resources=text)]) == 0
    assert "none yet" in capsys.readouterr().out


def test_without_hosts_yaml_naming_a_host_declares_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "resources:\n  - name: r\n    resourcemap: [{value: 1, location: [h2, h1.site]}]\n"
    found = resolve(capsys, folder(tmp_path, resources=text))
    assert found["static"] == {"h1.site": {"r": 1}, "h2": {"r": 1}}


def test_faults_end_it_with_exit_code_2_and_are_all_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RESOURCES.replace("[all, ~node1]", "[all, ~node4]").replace("[default]", "[nodes1]")
    path = folder(tmp_path, resources=text + "  - name: spare\n", hosts=HOSTS)
    assert run(["resolve", "--config", path, "--json"]) == 2
    told = capsys.readouterr()
    faults = json.loads(told.out)["error"]["faults"]
    assert [fault["place"] for fault in faults] == ["resources.yaml:5:34", "resources.yaml:10:40"]
    assert "resources.yaml:5:34: unknown host" in told.err


LINES = [
    "      - {value: 1, location: [h1]}",
    "      - {value: 2, location: [h2, '@g']}",
    "      - {value: 3, location: [default]}",
    "      - {value: 4, location: [all, ~h1]}",
    "      - {value: 5, location: [h9]}",
    "      - {value: 6, location: [~h1]}",
    "      - {location: [h3]}",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=3, unique=True), st.randoms())
def test_a_folder_is_taken_whole_or_not_at_all_whatever_the_order_of_its_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[str], random: Any
) -> None:
    hosts = "groups: {g: [h3]}\nhosts: [{name: 'h[1-4]'}]\n"
    good = "  - name: good\n    resourcemap: [{value: 1, location: [default]}]\n"
    results = []
    for _ in range(2):
        text = "\n".join(["resources:", "  - name: r", "    resourcemap:", *lines, good])
        code = run(["resolve", "--config", folder(tmp_path, resources=text, hosts=hosts), "--json"])
        told = json.loads(capsys.readouterr().out)
        assert set(told) == ({"error"} if code else {"static", "pools", "dynamic", "resources"})
        results.append((code, told.get("static")))
        lines = random.sample(lines, len(lines))
    assert results[0] == results[1]
