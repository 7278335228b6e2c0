"""A valid folder means what docs/configuration.md says: types, defaults, aliases, builtins, warnings."""

# ruff: noqa: E501 - one resource a line reads better

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest

from dynres.config.faults import ConfigError
from dynres.config.load import default_role, load
from dynres.config.model import Configuration, Resource
from dynres.config.result import Loaded, read_result


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / f"{name}.yaml").write_text(dedent(text))
    return path


def loaded(path: Path, text: str, **files: str) -> Loaded:
    return load(folder(path, resources=text, **files), "controller", everything=True)


def only(path: Path, text: str) -> Resource:
    return loaded(path, text).configuration.resources[0]


@pytest.mark.parametrize(
    "written", ["no", "007", "1.10", "2026-11-30", "1:30", "~", "null", "0x10", ".inf", "1_000"]
)
def test_a_string_stays_the_characters_that_were_written(tmp_path: Path, written: str):
    text = f"resources: [{{name: a, type: string, resourcemap: [{{value: {written}, location: [h]}}]}}]"
    assert only(tmp_path, text).entries[0].value == written


@pytest.mark.parametrize("name", ["no", "10", "1e3", "007", "true", "null"])
def test_a_host_name_is_text_as_written(tmp_path: Path, name: str):
    text = f"resources: [{{name: a, resourcemap: [{{value: 1, location: [{name}]}}]}}]"
    assert only(tmp_path, text).entries[0].location.hosts == (name,)


@pytest.mark.parametrize(
    ("written", "value"), [("yes", True), ("Off", False), ("true", True), ('"no"', False)]
)
def test_a_boolean_is_read_by_declaration(tmp_path: Path, written: str, value: bool):
    text = f"resources: [{{name: a, type: boolean, resourcemap: [{{value: {written}, location: [h]}}]}}]"
    assert only(tmp_path, text).entries[0].value is value


@pytest.mark.parametrize(("written", "value"), [("12", 12), ("-3.5", -3.5), ("1e3", 1000)])
def test_a_number_is_a_plain_decimal_number(tmp_path: Path, written: str, value: float):
    text = f"resources: [{{name: a, resourcemap: [{{value: {written}, location: [h]}}]}}]"
    assert only(tmp_path, text).entries[0].value == value


def test_order_ttl_timeout_and_per_have_their_defaults(tmp_path: Path):
    configuration = loaded(
        tmp_path,
        """
        resources:
          - {name: a, interval: 30s, probe: {command: [x]}, resourcemap: [{location: [default]}]}
          - {name: b, type: string, interval: 2, probe: {command: [x]}, resourcemap: [{location: [default]}]}
          - {name: c, interval: 4s, probe: {command: [x], timeout: 20s}, resourcemap: [{location: [default]}]}
          - {name: d, flags: [shared], resourcemap: [{value: 1, location: [h]}]}
        """,
    ).configuration
    a, b, c, d = configuration.resources[:4]
    assert (a.order, a.ttl, a.per, a.on_failure) == ("decreasing", 90, "host", "keep")
    assert (b.order, b.ttl) == ("none", 6)
    assert c.ttl == 24
    assert [configuration.probe(name).timeout for name in "abc"] == [10, 2, 20]
    assert (d.ttl, d.per, d.leasable) == (None, "job", True)


def test_a_probe_that_several_resources_name_runs_at_the_shortest_interval(tmp_path: Path):
    configuration = loaded(
        tmp_path,
        """
        resources:
          - {name: a, interval: 30s, probe: p, resourcemap: [{location: [default]}]}
          - {name: b, interval: 3s, probe: p, resourcemap: [{location: [default]}]}
        probes:
          - {name: p, command: [x], format: lines, map: {x: a, y: b}, output_limit: 1KiB}
        """,
    ).configuration
    probe = configuration.probe("p")
    assert (probe.timeout, probe.map, probe.output_limit) == (3, {"x": "a", "y": "b"}, 1024)


def test_amounts_are_exact_decimals(tmp_path: Path):
    made = only(
        tmp_path,
        """
        resources:
          - name: a
            flags: [shared]
            resourcemap:
              - {value: 0.1, location: [h], reserve: 0.04}
              - {value: 100, location: [i], reserve: 10%}
        """,
    )
    first, second = made.entries
    assert (first.capacity, first.reserve) == (Decimal("0.1"), Decimal("0.04"))
    assert (second.reserve, second.reserve_percent) == (None, Decimal(10))


def test_aliases_and_merge_keys_work_and_own_keys_win(tmp_path: Path):
    first, second = loaded(
        tmp_path,
        """
        resources:
          - &base
            name: a
            type: string
            description: one
            resourcemap: &map
              - {value: x, location: [h]}
          - <<: *base
            name: b
            resourcemap: *map
        """,
    ).configuration.resources[:2]
    assert (first.name, second.name) == ("a", "b")
    assert (second.type, second.description, second.entries) == ("string", "one", first.entries)


def test_an_entry_changes_only_the_options_that_it_names(tmp_path: Path):
    made = only(
        tmp_path,
        """
        resources:
          - name: a
            interval: 30s
            probe: {command: [x], timeout: 5s, env: {A: "1", B: "2"}}
            resourcemap:
              - {location: [h], probe: {env: {B: "3"}}}
              - {location: [default]}
        """,
    )
    assert made.entries[0].probe.env == {"A": "1", "B": "3"}
    assert made.entries[0].probe.command == ("x",)
    assert made.entries[0].probe.name == "a"
    assert made.entries[1].probe is None


def test_a_builtin_index_may_be_redefined_with_override(tmp_path: Path):
    configuration = loaded(
        tmp_path,
        """
        resources:
          - {name: ls, override: true, interval: 1m, probe: {command: [x]}, resourcemap: [{location: [default]}]}
          - {name: mem, override: true, unit: MB, interval: 30s, probe: load-indices, resourcemap: [{location: [default]}]}
        """,
    ).configuration
    assert [r.name for r in configuration.resources].count("ls") == 1
    assert len(configuration.resources) == 11
    assert not configuration.resource("ls").builtin
    assert configuration.resource("mem").probe == "load-indices"
    assert configuration.resource("r1m").builtin


def test_a_resource_and_a_probe_may_be_named_load(tmp_path: Path):
    configuration = loaded(
        tmp_path,
        """
        resources:
          - {name: load, interval: 5s, probe: {command: [x]}, resourcemap: [{location: [default]}]}
        """,
    ).configuration
    assert configuration.resource("load").probe == "load"
    assert configuration.resource("r1m").probe == "load-indices"
    loaded(
        tmp_path,
        """
        resources:
          - {name: busy, interval: 5s, probe: load, resourcemap: [{location: [default]}]}
        probes:
          - {name: load, command: [x]}
        """,
    )


def test_only_a_load_index_may_name_the_builtin_probe(tmp_path: Path):
    with pytest.raises(ConfigError, match="resource a: probe: expected a name under probes"):
        loaded(
            tmp_path,
            """
            resources:
              - {name: a, interval: 5s, probe: load-indices, resourcemap: [{location: [default]}]}
            """,
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "resources: [{name: a, resourcemap: [{value: 100, location: [host1, host2]}]}]",
            "host1 and host2 get 100 EACH; if they share it: flags: [shared]",
        ),
        ("resources: [{name: a}]", "resource a: no host has it"),
        ("resources: []\nprobes: [{name: p, command: [x]}]", "probe p: nothing uses it"),
        (
            "resources: [{name: a, interval: 9s, probe: {plugin: nosuch}, resourcemap: [{location: [default]}]}]",
            "probe a: plugin 'nosuch' is not installed here",
        ),
        (
            "resources: [{name: a, resourcemap: [{value: 1, location: [others]}]}]",
            "others",
        ),
        (
            "resources: [{name: a, flags: [shared, global], resourcemap: [{value: 1}]}]",
            "global already means shared",
        ),
        (
            "resources: [{name: a, flags: [global], measures: total, interval: 9s, probe: {command: [x]}, resourcemap: [{}]}]",
            "any host may be the one that measures it",
        ),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path, text: str, said: str):
    warnings = loaded(tmp_path, text).warnings
    assert any(said in str(warning) for warning in warnings), warnings
    assert all(warning.place for warning in warnings)


@pytest.mark.parametrize("flag", ["shared", "consumable", "per_host"])
def test_a_flag_that_says_what_is_meant_ends_the_warning(tmp_path: Path, flag: str):
    text = (
        f"resources: [{{name: a, flags: [{flag}], resourcemap: [{{value: 1, location: [h, i]}}]}}]"
    )
    assert loaded(tmp_path, text).warnings == ()


def test_plugin_options_become_what_the_plugin_declares(tmp_path: Path):
    configuration = loaded(
        tmp_path,
        """
        resources:
          - {name: a, interval: 9s, probe: {plugin: disk, options: {path: /tmp}}, resourcemap: [{location: [default]}]}
        """,
    ).configuration
    assert configuration.probe("a").options == {"path": "/tmp"}


def test_settings_are_read(tmp_path: Path):
    configuration = loaded(
        tmp_path,
        "resources: []\n",
        agent="""
        host: no
        controller: [tcp://a:5750, "tcp://[::1]:5750"]
        metrics: off
        path: /bin:/usr/bin
        trusted_owners: [admin]
        max_running: 4
        user: nobody
        log_level: debug
        """,
        controller="""
        listen: 10.0.0.1
        agent_port: 1
        client_port: 2
        metrics: {listen: "127.0.0.1:1", per_host: yes}
        state: /tmp/x
        registration: listed
        forget_after: 1d
        fair_after: 90s
        """,
    ).configuration
    agent, controller = configuration.agent, configuration.controller
    assert (agent.host, agent.metrics, agent.max_running) == ("no", None, 4)
    assert agent.controllers == ("tcp://a:5750", "tcp://[::1]:5750")
    assert (controller.listen, controller.agent_port, controller.client_port) == ("10.0.0.1", 1, 2)
    assert (controller.per_host_metrics, controller.forget_after) == (True, 86400)
    assert controller.fair_after == 90


def test_without_hosts_yaml_an_agent_leaves_a_group_for_later(tmp_path: Path):
    text = 'resources: [{name: a, resourcemap: [{value: 1, location: ["@eda"]}]}]'
    path = folder(tmp_path, resources=text)
    made: Configuration = load(path, "agent").configuration
    assert made.resources[0].entries[0].location.unresolved
    assert not made.listed


def test_the_role_follows_from_the_files(tmp_path: Path):
    assert default_role(tmp_path) == "controller"
    (tmp_path / "agent.yaml").touch()
    assert default_role(tmp_path) == "agent"
    (tmp_path / "hosts.yaml").touch()
    assert default_role(tmp_path) == "controller"


def read_in_a_process(path: Path) -> bytes:
    command = [sys.executable, "-I", "-m", "dynres.config", str(path), "--role", "agent"]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def test_the_reader_process_gives_the_same_as_reading_here(tmp_path: Path):
    text = """
        resources:
          - {name: a, flags: [shared], resourcemap: [{value: 0.1, location: [h], reserve: 10%}]}
          - {name: b, interval: 30s, probe: {command: [x], env: {A: 1}}, resourcemap: [{location: [default]}]}
          - {name: c, type: boolean, resourcemap: [{value: no, location: [h, i]}]}
          - {name: d, type: string, resourcemap: [{value: "1", location: [all]}]}
        """
    path = folder(tmp_path, resources=text)
    result = read_result(read_in_a_process(path))
    here = load(path, "agent")
    assert result.configuration == here.configuration
    assert (result.warnings, result.faults) == (here.warnings, ())


def test_the_reader_process_hands_over_every_fault(tmp_path: Path):
    result = read_result(read_in_a_process(folder(tmp_path, resources="resources: [{}, {}]")))
    assert result.configuration is None
    assert [fault.what for fault in result.faults] == ["resource ?: key name is missing"] * 2


def test_a_resource_that_only_hosts_yaml_gives_to_hosts_is_mapped(tmp_path: Path):
    made = loaded(
        tmp_path,
        "resources: [{name: a}, {name: b}]",
        hosts="hosts: [{name: h, resource: [{name: a, value: 5}]}]",
    )
    assert [str(warning).partition(": ")[2] for warning in made.warnings] == [
        "resource b: no host has it (add a resourcemap)"
    ]
