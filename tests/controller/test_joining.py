"""Hosts that register later join at once, and get what they would have had from the start."""

from pathlib import Path

import pytest
from handmade import Bench, configured, measured
from hypothesis import given
from hypothesis import strategies as st

from dynres.controller.answers import Answers

RESOURCES = """
resources:
  - {name: temp, interval: 15, probe: {command: [/bin/t]}, resourcemap: [{location: [default]}]}
  - {name: os, type: string, resourcemap: [{value: el9, location: [default]},
                                           {value: el8, location: [host1]}]}
  - {name: lic, flags: [shared], resourcemap: [{value: 50, location: [host1]},
                                               {value: 30, location: [others]}]}
  - {name: site, flags: [global], resourcemap: [{value: 7}]}
  - {name: slots, flags: [consumable], resourcemap: [{value: 8, location: [all]}]}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(configured(tmp_path, RESOURCES), "open")


def everything(bench: Bench, host: str) -> dict[str, object]:
    view = Answers(bench.core, bench.now).values_of(host, bench.core.configuration.resources)
    return {name: value.value for name, value in view.values.items() if name not in LOAD}


LOAD = {"r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem"}


def test_a_late_host_joins_all_others_and_default_at_once(bench: Bench) -> None:
    assert everything(bench, "late") == {}
    bench.hello(b"a", "late")
    assert everything(bench, "late") == {
        "temp": None,
        "os": "el9",
        "lic": 30,
        "site": 7,
        "slots": 8,
    }
    bench.report(b"a", 1, measured("temp", 3.0), full=True)
    assert everything(bench, "late")["temp"] == 3.0


def test_a_pools_capacity_does_not_change_when_a_host_joins(bench: Bench) -> None:
    bench.hello(b"a", "late")
    pools = {(p.resource, p.instance): p for p in Answers(bench.core, bench.now).pools()}
    assert pools["lic", "others"].capacity == 30
    assert pools["lic", "others"].members == ("late",)
    assert pools["site", "site"].members == ("host1", "late")
    assert pools["site", "site"].capacity == 7
    assert pools["slots", "late"].capacity == 8


def test_a_forgotten_host_leaves_every_pool_and_the_table(bench: Bench) -> None:
    bench.hello(b"a", "late")
    bench.hello(b"b", "host1")
    bench.wait(3.0)
    bench.now += 8 * 86400.0
    bench.wait(2.0, b"b")
    assert everything(bench, "late") == {}
    assert list(bench.core.registry.hosts()) == ["host1"]
    (pool,) = (p for p in Answers(bench.core, bench.now).pools() if p.instance == "others")
    assert pool.members == ()


def test_an_unlisted_host_stays_through_a_reload(bench: Bench, tmp_path: Path) -> None:
    bench.hello(b"a", "late")
    bench.report(b"a", 1, measured("temp", 3.0), full=True)
    bench.core.reload(configured(tmp_path, RESOURCES), "open", bench.now)
    assert everything(bench, "late")["temp"] == 3.0


@given(st.permutations(["h10", "h2", "host1", "x"]))
def test_the_order_of_registration_makes_no_difference(order: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        configuration = configured(Path(folder), RESOURCES)
    bench, straight = Bench(configuration, "open"), Bench(configuration, "open")
    for host in order:
        bench.hello(host.encode(), host)
    for host in sorted(order):
        straight.hello(host.encode(), host)
    views = [
        (Answers(b.core, b.now).pools_view(holders=False), [everything(b, h) for h in order])
        for b in (bench, straight)
    ]
    assert views[0] == views[1]
