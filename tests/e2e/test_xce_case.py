"""The resource shapes of XCE's own file, through one controller and four agents on this machine."""

import json
from pathlib import Path
from typing import Any

from cluster import Cluster, cluster, dynres, wait_for

from dynres.client import Client
from dynres.wire.views import to_builtins

CASE = Path(__file__).parent.parent / "cases" / "xce"
EXPECTED = json.loads((CASE / "expected.json").read_text())
HOSTS = ("host1", "host2", "host3", "host4")


def matches(part: Any, whole: Any) -> bool:
    """Whether everything that `part` says stands in `whole`, in its place."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            k in whole and matches(v, whole[k]) for k, v in part.items()
        )
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(matches, part, whole))
    return bool(part == whole)


def test_resolve_equals_what_is_expected() -> None:
    done = dynres("resolve", "--config", str(CASE), "--json")
    assert done.returncode == 0, done.stderr
    resolved = json.loads(done.stdout)
    assert resolved["static"] == EXPECTED["static"]
    assert resolved["dynamic"] == EXPECTED["dynamic"]
    assert matches(EXPECTED["pools"], resolved["pools"])


def complete(doc: Any) -> bool:
    """Whether every static and dynamic value of the case is shown fresh."""
    for host, values in EXPECTED["static"].items():
        shown = doc["hosts"].get(host, {"values": {}})["values"]
        for resource, value in values.items():
            cell = shown.get(resource)
            if cell is None or cell["state"] != "fresh" or cell["value"] != value:
                return False
    for resource, hosts in EXPECTED["dynamic"].items():
        wanted = {"dynres1": 7, "dynres2": "ok"}[resource]
        for host in hosts:
            cell = doc["hosts"].get(host, {"values": {}})["values"].get(resource)
            if cell is None or cell["value"] != wanted or cell["source"]["reporter"] != host:
                return False
    return True


def test_four_agents_show_every_value_within_five_seconds_of_the_last_start(tmp_path: Path) -> None:
    with cluster(CASE, tmp_path) as c:
        c.start_controller()
        for host in HOSTS:
            c.start_agent(host)
        # Asked over one connection: a new process for every look would slow the agents' start.
        with Client(c.env["DYNRES_CONTROLLER"]) as client:
            try:
                wait_for(lambda: complete(to_builtins(client.values())), 5)
            except AssertionError:
                raise AssertionError(f"{c.ask('values')}\n{c.logs()}") from None
        doc = c.ask("values")
        assert complete(doc)
        check_scopes(doc)
        check_pools(c)
        assert set(c.ask("hosts")["hosts"]) == set(HOSTS)


def check_scopes(doc: Any) -> None:
    """Resources stand only where they are mapped, and the load indices everywhere."""
    assert "dynres2" not in doc["hosts"]["host2"]["values"]
    assert "staticres2" not in doc["hosts"]["host3"]["values"]
    for host in HOSTS:
        assert doc["hosts"][host]["state"] == "up"
        values = doc["hosts"][host]["values"]
        assert values["mem"]["unit"] == "MB"
        assert values["mem"]["value"] > 0
        assert values["staticres4"]["value"] == (50 if host in {"host1", "host2"} else 30)
        assert values["staticres4"]["source"]["kind"] == "pool"


def check_pools(c: Cluster) -> None:
    """Shared pools and the consumable of each host are listed with their capacity."""
    pools = {(p["resource"], tuple(p["members"])): p for p in c.ask("pools")["pools"]}
    for expected in EXPECTED["pools"]:
        pool = pools[expected["resource"], tuple(expected["members"])]
        assert pool["capacity"] == expected["capacity"] == pool["free"]
        assert pool["leased"] == 0
    for host in HOSTS:
        pool = pools["host_quota", (host,)]
        assert pool["capacity"] == EXPECTED["static"][host]["host_quota"]


def test_explain_names_the_file_and_line_of_a_replicated_value(tmp_path: Path) -> None:
    with cluster(CASE, tmp_path) as c:
        c.start_controller()
        done = c.call("explain", "host2", "strres1")
        assert done.returncode == 0, done.stderr
        assert "el8" in done.stdout
        assert "resources.yaml:22:" in done.stdout or "resources.yaml:23:" in done.stdout
