"""`dynres check` and `dynres schema`: every fault at once, or the reading in words."""

# ruff: noqa: E501 - one resource a line reads better

import json
from pathlib import Path

import pytest

from dynres.cli.main import run

RESOURCES = """\
resources:
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}, {value: el8, location: [host2]}]}
  - name: iris
    unit: GB
    flags: [shared]
    resourcemap:
      - value: 100
        location: [host1, host2]
        reserve: 10%
      - {value: 30, location: [others]}
      - {value: 5, location: [host9], name: big}
  - {name: quota, flags: [consumable], resourcemap: [{value: 10, location: [default]}]}
  - {name: many, flags: [per_host], resourcemap: [{value: 1, location: ["node[1-8]"]}]}
  - {name: scratch, interval: 30s, probe: {command: [df]}, resourcemap: [{location: [default, "~host1"]}]}
  - name: licences
    flags: [shared]
    interval: 1m
    measures: total
    probe: {command: [lm]}
    resourcemap: [{location: [all], reporter: [host2, host1], capacity: 9}]
  - {name: each, resourcemap: [{value: 4, location: [host1, host2]}]}
"""
HOSTS = """\
hosts:
  - {name: host1, resource: [{name: quota, value: 20}]}
  - {name: host2, resource: [{name: quota, value: 20}]}
  - name: host9
  - name: node[1-8]
"""
WORDS = """\
os: el9 on every host that no other entry covers; el8 on host2
iris: host1 and host2 share one amount of 100 GB, 10% of it never leased (resources.yaml:7:9); \
all hosts that no other entry covers share one amount of 30 GB (resources.yaml:10:9); \
host9 alone has one amount of 5 GB as big (resources.yaml:11:9)
quota: 10 on every host. hosts.yaml gives 20 to host1 and host2 instead of 10
many: 1 on each of node[1-8]
scratch: measured every 30s by probe scratch: on every host except host1
licences: all hosts share one amount of at most 9, measured every 1m by probe licences on host2 \
or else host1 (resources.yaml:20:19)
each: 4 on each of host1 and host2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "resources.yaml").write_text(RESOURCES)
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    return tmp_path


def test_check_says_in_words_what_every_resource_means(folder: Path, capsys):
    assert run(["check", "--config", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{WORDS}{folder} is valid for the controller: 7 resources\n"
    assert err == (
        "warning: resources.yaml:21:32: resource each: host1 and host2 get 4 EACH; "
        "if they share it: flags: [shared] (flags: [per_host] says that each is meant)\n"
    )


def test_check_prints_one_document_when_it_is_asked_for(folder: Path, capsys):
    assert run(["check", "--config", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["role"] == "controller"
    first = document["resources"][0]
    assert first["resource"] == "os"
    assert first["reading"] == "el9 on every host that no other entry covers; el8 on host2"
    assert first["place"] == "resources.yaml:2:5"
    assert [sorted(w) for w in document["warnings"]] == [
        ["expected", "got", "hint", "place", "what"]
    ]


def test_check_tells_every_fault_at_once_on_stderr(tmp_path: Path, capsys):
    (tmp_path / "resources.yaml").write_text("resources: [{name: a, intervall: 1}, {}]\n")
    (tmp_path / "controller.yaml").write_text("listn: x\n")
    assert run(["check", "--config", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(": ")[0] for line in err.splitlines()[:4]] == [
        "resources.yaml:1:23",
        "resources.yaml:1:34",  # read on as the interval that was meant: it has no probe
        "resources.yaml:1:38",
        "controller.yaml:1:1",
    ]
    assert "did you mean interval?" in err


def test_check_gives_its_faults_as_json_too(tmp_path: Path, capsys):
    (tmp_path / "resources.yaml").write_text("resources: [{}]\n")
    assert run(["check", "--config", str(tmp_path), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "config"
    assert error["faults"] == [
        {
            "place": "resources.yaml:1:13",
            "what": "resource ?: key name is missing",
            "expected": "name: …",
            "got": None,
            "hint": None,
        }
    ]


def test_an_agents_folder_is_checked_as_the_agent_reads_it(tmp_path: Path, capsys):
    text = 'resources: [{name: a, resourcemap: [{value: 1, location: ["@eda"]}]}]\n'
    (tmp_path / "resources.yaml").write_text(text)
    (tmp_path / "agent.yaml").write_text("host: host1\n")
    assert run(["check", "--config", str(tmp_path)]) == 0
    assert "the hosts of @eda (the controller knows them)" in capsys.readouterr().out
    assert run(["check", "--config", str(tmp_path), "--role", "controller"]) == 2


@pytest.mark.parametrize("file", ["resources", "hosts", "agent", "controller"])
def test_schema_is_made_from_the_models_and_knows_every_key(file: str, capsys):
    from dynres.config.jsonschema import FILES

    assert run(["schema", file]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["title"] == f"{file}.yaml"
    assert set(schema["properties"]) == set(FILES[file].model_fields)
    assert schema["additionalProperties"] is False


def test_schema_accepts_yamls_own_numbers_and_booleans_where_the_text_is_one(capsys):
    run(["schema", "resources"])
    definitions = json.loads(capsys.readouterr().out)["$defs"]
    assert definitions["Entry"]["properties"]["value"]["type"] == ["string", "number", "boolean"]
    assert definitions["Resource"]["properties"]["interval"]["type"] == ["string", "number"]
    assert definitions["Resource"]["properties"]["type"]["enum"] == ["numeric", "boolean", "string"]
