"""A real Prometheus scrapes agent and controller, and its query API shows their series."""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, cluster, free_port, wait_for

CASE = Path(__file__).parent.parent / "cases" / "xce"

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs the Debian package prometheus"
)

SCRAPES = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: agent
    static_configs: [{{targets: ["{agent}"]}}]
  - job_name: controller
    static_configs: [{{targets: ["{controller}"]}}]
"""


@contextmanager
def prometheus(c: Cluster) -> Iterator[str]:
    """Prometheus over both pages; gives the address of its API."""
    config = c.home / "prometheus.yml"
    pages = {name: daemon.metrics for name, daemon in c.daemons.items()}
    config.write_text(SCRAPES.format(agent=pages["host1"], controller=pages["controller"]))
    address = f"127.0.0.1:{free_port()}"
    with (c.home / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={c.home / 'tsdb'}",
                f"--web.listen-address={address}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield address
    finally:
        process.terminate()
        process.wait(20)


def query(address: str, expression: str) -> list[Any]:
    """The result of an instant query; empty while Prometheus is starting."""
    url = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return list(json.load(answer)["data"]["result"])
    except (urllib.error.URLError, ConnectionError):
        return []


def test_prometheus_shows_the_series_of_both_sides(tmp_path: Path) -> None:
    with cluster(CASE, tmp_path) as c:
        c.start_controller()
        c.start_agent("host1")
        with prometheus(c) as address:

            def value(expression: str) -> float:
                found = wait_for(lambda: query(address, expression), 30)
                return float(found[0]["value"][1])

            assert value('dynres_resource_value{resource="dynres1"}') == 7
            assert value('dynres_resource_value{resource="mem"}') > 0
            assert value('dynres_resource_info{resource="dynres2",value="ok"}') == 1
            assert value('dynres_resource_age_seconds{resource="dynres1"}') >= 0
            assert value('dynres_probe_runs_total{probe="dynres1",outcome="ok"}') >= 1
            assert value("dynres_agent_connected") == 1
            assert value("dynres_agent_reports_total") >= 1
            assert value("dynres_probe_lateness_seconds_count") >= 1
            assert value('dynres_hosts{state="up"}') == 1
            assert value('dynres_hosts{state="never"}') == 3
            assert value('dynres_reports_total{result="taken"}') >= 1
            assert value('dynres_pool_capacity{resource="staticres1"}') == 100
            assert value('dynres_pool_free{resource="staticres1"}') == 100
            assert value('up{job="agent"}') == 1
            assert value('up{job="controller"}') == 1
