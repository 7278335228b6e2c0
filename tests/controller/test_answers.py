"""The views: fixed shapes, near misses for unknown names, and sentences that explain."""

import json
from pathlib import Path

import pytest
from handmade import Bench, configured, measured

from dynres.controller.answers import Answers, RefusedError
from dynres.controller.explain import explain
from dynres.controller.numbers import numbers
from dynres.wire.messages import Run
from dynres.wire.views import to_builtins

CASE = Path(__file__).parents[1] / "cases" / "xce"
RESOURCES = """
resources:
  - name: scratch_free
    unit: GB
    interval: 30s
    flags: [consumable]
    measures: total
    probe: {command: [/bin/s]}
    resourcemap: [{location: [default]}, {location: [host2], reserve: 5}]
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]}]}
  - {name: quota, flags: [consumable], resourcemap: [{value: 10, location: ["@eda"]}]}
  - name: lic
    flags: [shared]
    interval: 15
    measures: external
    probe: {command: [/bin/lic]}
    resourcemap: [{capacity: 100, location: [host1, host2], reporter: [host1]}]
"""
HOSTS = """
groups: {eda: [host1, host2]}
hosts:
  - name: host1
    resource: [{name: quota, value: 20}, {name: os, value: el8}]
  - name: host[2-3]
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(configured(tmp_path, RESOURCES.replace('["@eda"]', "[default]"), HOSTS))
    made.hello(b"1", "host1")
    told = (measured("scratch_free", 12.5, 1.25), measured("lic", 40.0, instance="lic"))
    made.report(b"1", 1, *told, full=True)
    return made


@pytest.fixture
def answers(bench: Bench) -> Answers:
    return Answers(bench.core, bench.now)


def said(bench: Bench, host: str, resource: str) -> str:
    return "\n".join(explain(bench.core, Answers(bench.core, bench.now), host, resource).sentences)


def test_hosts_are_those_that_are_up_and_all_with_all_hosts(answers: Answers) -> None:
    assert answers.hosts((), all_hosts=False).hosts == ("host1",)
    view = answers.hosts((), all_hosts=True)
    assert view.hosts == ("host1", "host2", "host3")
    assert view.details["host2"].state == "never"
    assert view.details["host2"].agent is None
    agent = view.details["host1"].agent
    assert agent is not None
    assert (agent.version, agent.uptime) == ("0.1.0", 12.0)


def test_hosts_may_be_named_by_group(answers: Answers) -> None:
    assert answers.hosts_named(("@eda", "host1")) == ["host1", "host2"]


@pytest.mark.parametrize(
    ("name", "hint"), [("hots1", "host1"), ("@edaa", "eda"), ("zzz", None), ("all", None)]
)
def test_an_unknown_host_or_group_is_refused_with_a_near_miss(
    answers: Answers, name: str, hint: str | None
) -> None:
    with pytest.raises(RefusedError) as caught:
        answers.hosts_named((name,))
    assert caught.value.failure.code == "unknown_host"
    assert (f"did you mean {hint}?" in str(caught.value)) == (hint is not None)


def test_an_unknown_resource_is_refused_with_a_near_miss(answers: Answers) -> None:
    with pytest.raises(RefusedError, match="did you mean scratch_free"):
        answers.resource_named("scratch-free")


def test_for_a_leasable_resource_the_value_is_what_is_free_there(answers: Answers) -> None:
    resources = answers._core.resources
    own = answers.value("host1", resources["scratch_free"])
    assert own is not None
    assert (own.value, own.unit, own.source.kind) == (12.5, "GB", "probe")
    pool = answers.value("host2", resources["lic"])
    assert pool is not None
    assert (pool.value, pool.source.kind, pool.source.reporter) == (60.0, "pool", "host1")


def test_pools_list_shared_instances_and_the_consumable_of_each_host(answers: Answers) -> None:
    listed = {(p.resource, p.instance): p for p in answers.pools()}
    assert [key for key in listed if key[0] == "scratch_free"] == [
        ("scratch_free", host) for host in ("host1", "host2", "host3")
    ]
    lic = listed["lic", "lic"]
    assert (lic.capacity, lic.reported, lic.free, lic.reporter) == (100, 40.0, 60, "host1")
    unseen = listed["scratch_free", "host2"]
    assert (unseen.state, unseen.capacity, unseen.free, unseen.reserve) == (
        "unavailable",
        None,
        None,
        5,
    )
    assert listed["quota", "host1"].source.startswith("hosts.yaml:5:")
    assert {p.holders for p in answers.pools_view(holders=True).pools} == {()}


def test_every_field_is_always_there_and_numbers_are_lossless(bench: Bench) -> None:
    answers = Answers(bench.core, bench.now)
    view = to_builtins(answers.values_of("host1", bench.core.configuration.resources))
    assert isinstance(view, dict)
    assert list(view) == ["state", "closed", "agent", "config", "why_closed", "values"]
    for value in view["values"].values():
        assert list(value) == [
            *("value", "last", "unit", "state", "reason", "age", "source", "reported"),
        ]
        assert list(value["source"]) == [
            *("kind", "probe", "reporter", "place", "who", "since", "why", "until"),
        ]
    assert json.dumps(view["values"]["quota"]["value"]) == "20"


def test_the_case_of_xce_shows_every_static_value_before_any_agent_is_here() -> None:
    expected = json.loads((CASE / "expected.json").read_text())
    from dynres.config.load import load

    bench = Bench(load(CASE, "controller").configuration)
    answers = Answers(bench.core, bench.now)
    for host, values in expected["static"].items():
        view = answers.values_of(host, bench.core.configuration.resources)
        shown = {n: v.value for n, v in view.values.items() if v.source.kind == "static"}
        assert shown == values
    pools = [
        {"resource": p.resource, "capacity": p.capacity, "members": list(p.members)}
        for p in answers.pools()
        if p.resource != "host_quota"
    ]
    assert pools == expected["pools"]


def test_explain_names_value_file_and_line_and_what_it_overrides(bench: Bench) -> None:
    text = said(bench, "host1", "quota")
    assert "quota on host1 is 20 free (fresh)." in text
    assert "declared at hosts.yaml:5:" in text
    assert "hosts.yaml gives 20 at hosts.yaml:5:" in text
    assert "which wins over 10 of resources.yaml:11:" in text
    assert "(default) covers host1" in text


def test_explain_says_who_measured_and_when(bench: Bench) -> None:
    text = said(bench, "host1", "scratch_free")
    assert "scratch_free on host1 is 12.5 GB free (fresh)." in text
    assert "Probe scratch_free measured it on host1, 1.25s ago." in text
    assert "measured every 30s by probe scratch_free, fresh for 1m30s" in text


def test_explain_says_why_there_is_no_value(bench: Bench) -> None:
    assert "is unavailable: no report yet." in said(bench, "host2", "scratch_free")
    assert "No agent has registered for host2 yet." in said(bench, "host2", "scratch_free")
    bench.wait(100)
    text = said(bench, "host1", "scratch_free")
    assert "is stale: older than its ttl of 1m30s; host host1 is unreachable." in text
    assert "It was last 12.5 GB." in text
    assert "host1 is unreachable: nothing from agent" in text
    assert "for 1m40s." in text


def test_explain_says_that_a_value_still_counts_though_its_probe_fails(bench: Bench) -> None:
    failed = Run(probe="scratch_free", outcome="failed", age=0.0, duration=0.1, reason="no df")
    bench.report(b"1", 2, runs=[failed])
    text = said(bench, "host1", "scratch_free")
    assert "scratch_free on host1 is 12.5 GB free (fresh)." in text
    assert "The last run gave nothing, and it counts until its ttl: failed: no df." in text


def test_an_agent_that_is_gone_grows_no_older(bench: Bench) -> None:
    before = Answers(bench.core, bench.now).detail("host1").agent
    assert before is not None
    bench.wait(100)
    detail = Answers(bench.core, bench.now).detail("host1")
    assert detail.state == "unreachable"
    assert detail.agent is not None
    assert detail.agent.uptime <= before.uptime


def test_explain_says_that_a_resource_is_absent(bench: Bench) -> None:
    text = said(bench, "host3", "lic")
    assert "lic on host3 is absent" in text
    assert "No entry of its resourcemap covers host3." in text


def test_explain_describes_the_pool_and_its_reporter(bench: Bench) -> None:
    text = said(bench, "host2", "lic")
    assert "Instance lic serves 2 hosts: host[1-2]." in text
    assert "Its probe has measured 40 as used by others." in text
    assert "Of a capacity of 100, 0 are reserved, 0 leased and 60 free." in text
    assert "host1 measures it for all of them." in text
    bench.bye(b"1")
    bench.wait(1)
    assert "Nobody measures it now" in said(bench, "host2", "lic")


def test_every_value_of_every_host_can_be_explained(bench: Bench) -> None:
    for host in bench.core.registry.hosts():
        for resource in bench.core.resources:
            assert len(said(bench, host, resource).splitlines()) >= 3


def test_the_page_shows_hosts_by_state_and_pools_but_hosts_values_only_when_asked(
    bench: Bench, tmp_path: Path
) -> None:
    shown = numbers(bench.core, bench.now)
    assert shown.hosts == {"up": 1, "unreachable": 0, "never": 2}
    assert [(p.resource, p.free) for p in shown.pools] == [("lic", 60.0)]
    assert list(shown.values) == []
    (tmp_path / "controller.yaml").write_text("metrics: {per_host: true}\n")
    asked = Bench(configured(tmp_path, RESOURCES, HOSTS))
    shown = numbers(asked.core, asked.now)
    assert {p.pool for p in shown.pools if p.resource == "quota"} == {"host1", "host2"}
    assert {v.host for v in shown.values} == {"host1", "host2", "host3"}
