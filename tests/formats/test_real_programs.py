"""Formats against the programs they are for, where these are installed."""

import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from dynres.worker.formats import parse
from dynres.worker.pairs import Asked

PLUGINS = Path("/usr/lib/nagios/plugins")
EXPORTER = Path("/usr/bin/prometheus-node-exporter")
needs_plugins = pytest.mark.skipif(
    not (PLUGINS / "check_load").exists(), reason="no monitoring-plugins-basic"
)


def plugin(name, *arguments):
    done = subprocess.run(
        [PLUGINS / name, *arguments], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@needs_plugins
def test_check_load_gives_its_status_and_three_loads():
    status, output = plugin("check_load", "-w", "9999,9999,9999", "-c", "9999,9999,9999")
    asked = Asked(
        resources={"ok": "boolean", "load1": "numeric", "load15": "numeric"},
        names={"status": "ok"},
        several=True,
        status=status,
    )
    parsed = parse(output, "nagios", asked)
    assert parsed.problem is None
    assert parsed.missed == {}
    assert parsed.values["ok"] is True
    assert abs(parsed.values["load1"] - os.getloadavg()[0]) < 20


@needs_plugins
def test_check_disk_in_its_own_unit_becomes_ours():
    status, output = plugin("check_disk", "-w", "1", "-c", "1", "-p", "/", "-u", "MB")
    asked = Asked(
        resources={"used": "numeric"}, names={"/": "used"}, units={"used": "GB"}, status=status
    )
    parsed = parse(output, "nagios", asked)
    free = os.statvfs("/")
    used = (free.f_blocks - free.f_bfree) * free.f_frsize / 2**30
    assert abs(parsed.values["used"] - used) < 2


@needs_plugins
def test_check_dummy_gives_each_status():
    asked = {"resources": {"s": "string"}, "names": {"status": "s"}}
    for status, word in enumerate(("OK", "WARNING", "CRITICAL", "UNKNOWN")):
        code, output = plugin("check_dummy", str(status), "text")
        assert code == status
        assert parse(output, "nagios", Asked(**asked, status=code)).values == {"s": word}


@pytest.mark.skipif(not EXPORTER.exists(), reason="no prometheus-node-exporter")
def test_the_page_of_the_node_exporter_gives_the_series_that_are_named():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    exporter = subprocess.Popen(
        [EXPORTER, f"--web.listen-address=127.0.0.1:{port}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        page = fetch(f"http://127.0.0.1:{port}/metrics")
    finally:
        exporter.kill()
        exporter.wait()
    asked = Asked(
        resources={"load": "numeric", "node_memory_MemTotal_bytes": "numeric", "idle": "numeric"},
        names={"node_load1": "load", 'node_cpu_seconds_total{cpu="0",mode="idle"}': "idle"},
        several=True,
    )
    parsed = parse(page, "prometheus", asked)
    assert (parsed.missed, parsed.refused) == ({}, ())
    assert parsed.values["node_memory_MemTotal_bytes"] > 2**20
    several = Asked(resources={"idle": "numeric"}, names={"node_cpu_seconds_total": "idle"})
    assert "series are meant" in parse(page, "prometheus", several).missed["idle"]


def fetch(url):
    end = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return answer.read()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
