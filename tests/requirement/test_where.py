"""`hosts --where` and `explain --where` on the controller's tables."""

from pathlib import Path

import pytest
from handmade import Bench, configured, measured

from dynres.controller.answers import Answers, RefusedError
from dynres.controller.changes import Closed
from dynres.controller.placement import Placement
from dynres.controller.why import explain_requirement
from dynres.wire.requests import AskHosts
from dynres.wire.views import HostsView

RESOURCES = """
resources:
  - {name: bigmem, type: boolean, resourcemap: [{value: true, location: [h1, h2]}]}
  - name: space
    unit: GB
    interval: 10s
    flags: [consumable]
    measures: total
    probe: {command: [/bin/s]}
    resourcemap: [{location: [default], reserve: 1}]
  - {name: iris, flags: [shared], resourcemap: [{value: 100, reserve: 2, location: [h1, h2]}]}
"""
HOSTS = 'hosts: [{name: "h[1-3]"}, {name: h10}, {name: login1, worker: false}]'


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(configured(tmp_path, RESOURCES, HOSTS))
    for n, space in ((1, 10.0), (2, 3.0), (10, 30.0)):
        made.hello(b"%d" % n, f"h{n}")
        made.report(b"%d" % n, 1, measured("space", space), full=True)
    return made


def ask(bench: Bench, where: str, *names: str, all_hosts: bool = False) -> HostsView:
    answers = Answers(bench.core, bench.now)
    request = AskHosts(hosts=names, where=where, all_hosts=all_hosts)
    return answers.hosts_where(Placement(bench.core), request, where)


def test_the_hosts_that_satisfy_it_in_the_order_of_host_sets(bench: Bench) -> None:
    assert ask(bench, "space > 1").hosts == ("h1", "h2", "h10")
    assert ask(bench, "space >= 9 GB").hosts == ("h1", "h10")
    assert ask(bench, "space > 1", "h10", "h1").hosts == ("h10", "h1")


def test_what_is_compared_is_what_is_free(bench: Bench) -> None:
    assert ask(bench, "space == 9").hosts == ("h1",)
    assert ask(bench, "iris: 98").hosts == ("h1", "h2")
    assert ask(bench, "iris > 98").hosts == ()


def test_on_hosts_without_the_resource_comparisons_are_false_and_not_holds(bench: Bench) -> None:
    assert ask(bench, "!bigmem").hosts == ("h10",)
    assert ask(bench, "iris != 5").hosts == ("h1", "h2")
    assert ask(bench, "!bigmem", all_hosts=True).hosts == ("h3", "h10", "login1")


def test_a_machine_that_is_no_worker_is_no_place_for_a_job(bench: Bench) -> None:
    bench.hello(b"l", "login1")
    assert ask(bench, "!bigmem").hosts == ("h10",)
    assert ask(bench, "!bigmem", "login1").hosts == ()
    assert ask(bench, "!bigmem", "login1", all_hosts=True).hosts == ("login1",)
    answers, placement = Answers(bench.core, bench.now), Placement(bench.core)
    said = list(explain_requirement(answers, placement, placement.requirement("!bigmem"), "login1"))
    assert said[1] == "Yet login1 is no worker, so it is only shown with --all-hosts."


def test_hosts_that_are_not_up_or_closed_are_left_out_but_with_all_hosts(bench: Bench) -> None:
    assert ask(bench, "defined(space)", all_hosts=True).hosts == ("h1", "h2", "h3", "h10")
    bench.core.operators.closed["h2"] = Closed("repair", "root", 0.0)
    assert ask(bench, "bigmem").hosts == ("h1",)
    assert ask(bench, "bigmem", all_hosts=True).hosts == ("h1", "h2")
    bench.bye(b"1")
    assert ask(bench, "bigmem || space > 1").hosts == ("h10",)


def test_unknown_are_those_whose_whole_result_is_unknown(bench: Bench) -> None:
    bench.report(b"1", 2, measured("space", None, reason="not mounted"))
    view = ask(bench, "space > 5")
    assert (view.hosts, view.unknown) == (("h10",), ("h1",))
    assert ask(bench, "space > 5 || bigmem").unknown == ()
    assert ask(bench, "space > 5 && !bigmem").unknown == ()
    assert set(view.details) == {"h1", "h10"}
    assert ask(bench, "space > 5", all_hosts=True).unknown == ("h1", "h3")


def test_nothing_is_compared_when_a_requirement_means_nothing(bench: Bench) -> None:
    with pytest.raises(RefusedError, match=r"column 11: no resource 'bigmen'.*bigmem") as caught:
        ask(bench, "bigmem || bigmen")
    assert caught.value.failure.code == "requirement"


def test_explain_says_why_condition_by_condition(bench: Bench) -> None:
    def why(host: str, where: str) -> list[str]:
        placement = Placement(bench.core)
        answers = Answers(bench.core, bench.now)
        return list(explain_requirement(answers, placement, placement.requirement(where), host))

    assert why("h2", "space >= 5 GB && bigmem && iris: 2") == [
        "The requirement space >= 5 GB && bigmem && iris: 2 does not hold on h2.",
        "space >= 5 GB does not hold: space is 2 GB free.",
        "bigmem holds: bigmem is true.",
        "iris: 2 holds: iris is 98 free.",
    ]
    assert why("h3", "bigmem || space > 5 || space == iris || defined(iris) || false") == [
        "The requirement bigmem || space > 5 || space == iris || defined(iris) || false "
        "is unknown on h3.",
        "bigmem does not hold: bigmem is absent there.",
        "space > 5 is unknown: space is unavailable: no report yet.",
        "space == iris does not hold: space is unavailable: no report yet, iris is absent there.",
        "defined(iris) does not hold: iris is absent there.",
        "false does not hold.",
    ]
    assert (
        why("h3", "!bigmem")[1]
        == "Yet h3 is without an agent, so it is only shown with --all-hosts."
    )
