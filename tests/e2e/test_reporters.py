"""One agent measures two licence pools for all; it is killed, and the next one goes on."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, cluster, wait_for

RESOURCES = """
resources:
  - name: lic
    flags: [shared]
    interval: 1s
    ttl: 20s
    measures: total
    probe: {command: [/bin/sh, -c, 'case $DYNRES_HOST in h1) echo $((PER+1));; h2) echo $((PER+2));;
              *) echo $((PER+3));; esac']}
    resourcemap:
      - {name: small, location: [n1], reporter: [h1, h2, h3], probe: {env: {PER: "10"}}}
      - {name: large, location: [n2], reporter: [h1, h2, h3], probe: {env: {PER: "20"}}}
"""
HOSTS = """
hosts:
  - {name: h1, worker: false}
  - {name: h2, worker: false}
  - {name: h3, worker: false}
  - {name: n1}
  - {name: n2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "resources.yaml").write_text(RESOURCES)
    (source / "hosts.yaml").write_text(HOSTS)
    return source


def pools(running: Cluster) -> dict[str, tuple[str | None, Any]]:
    found = running.ask("pools")["pools"]
    return {pool["instance"]: (pool["reporter"], pool["free"]) for pool in found}


def by(host: str) -> dict[str, tuple[str, int]]:
    number = int(host[1])
    return {"small": (host, 10 + number), "large": (host, 20 + number)}


def test_the_value_moves_within_ten_seconds_and_the_old_reporter_does_not_take_it_back(
    folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with cluster(folder, home) as running:
        running.start_controller()
        for host in ("h1", "h2", "h3"):
            running.start_agent(host)
        wait_for(lambda: pools(running) == by("h1"), 30)
        wait_for(lambda: len(running.ask("hosts")["hosts"]) == 3, 30)
        first = running.daemons.pop("h1")
        first.process.kill()
        first.process.wait()
        killed = time.monotonic()
        wait_for(lambda: pools(running) == by("h2"), 20)
        assert time.monotonic() - killed <= 10.0
        running.start_agent("h1")
        wait_for(lambda: "h1" in running.ask("hosts")["hosts"], 30)
        status = json.loads(running.call("status", "--host", "h2", "--json").stdout)
        shown = [(r["resource"], r["instance"], r["value"]) for r in status["resources"]]
        assert [row for row in shown if row[1]] == [("lic", "large", 22), ("lic", "small", 12)]
        assert pools(running) == by("h2")
        told = running.ask("history", "--pool", "small")["entries"]
        assert [e["host"] for e in told if e["what"] == "reporter"][-1] == "h2"
