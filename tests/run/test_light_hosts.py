"""What a plugin host imports: next to nothing for the load indices, and no less for others."""

import asyncio
import subprocess
import sys
from importlib import metadata
from zipfile import ZipFile

import pytest
from hosts import PATH, SITE, job, plugin_hosts

from dynres.worker import plugin_entries, plugin_find
from dynres.worker.plugin_client import Job, PluginHosts

HEAVY = {
    *("typing", "re", "enum", "threading", "socket", "traceback", "pathlib", "collections"),
    *("contextlib", "importlib.metadata", "email", "msgspec", "psutil", "dataclasses", "decimal"),
    *("dynres.probe", "dynres.value", "dynres_probes.logind"),
}
INDICES = """
import sys, dynres.worker.plugin_host
from dynres.worker.plugin_run import items
from dynres.worker.plugin_find import make
assert len(items(make("load", {}).read())) == 11
print(*sys.modules)
"""


def test_the_load_indices_import_nothing_that_costs_memory():
    command = [sys.executable, "-I", "-c", INDICES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & HEAVY == set()


@pytest.mark.parametrize("before", [(), ("load",)], ids=["first", "after the load indices"])
def test_threading_knows_the_main_thread_and_that_of_a_run(before):
    async def read():
        async with plugin_hosts() as hosts:
            for name in before:
                assert (await hosts.run(Job(probe=name, plugin=name, timeout=20.0))).status == "ok"
            return (await hosts.run(job("main_thread"))).payload

    assert asyncio.run(read()) == [("main", "boolean", True), ("own", "boolean", True)]


def test_plugins_are_found_as_importlib_finds_them(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, SITE])
    expected = {
        (p.name, p.value, p.dist.name) for p in metadata.entry_points(group="dynres.probes")
    }
    found = plugin_entries.entry_points()
    assert len(found) == len(expected) > 30
    assert {(p.name, p.value) for p in found} == {(name, value) for name, value, _ in expected}
    assert {p.distribution for p in found} == {"dynres", "rogue-probes", "second-probes"}


def test_a_plugin_in_a_zip_file_is_found(monkeypatch, tmp_path):
    with ZipFile(tmp_path / "more.zip", "w") as file:
        file.writestr("zipped.py", "class Probe:\n    def read(self):\n        return {'a': 1}\n")
        file.writestr("zipped-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\n")
        file.writestr(
            "zipped-1.dist-info/entry_points.txt", "[dynres.probes]\nzipped = zipped : Probe [x]\n"
        )
    monkeypatch.syspath_prepend(tmp_path / "more.zip")
    assert plugin_find.make("zipped", {}).read() == {"a": 1}


def test_other_groups_comments_and_extras_are_no_plugins():
    text = (
        "[console_scripts]\nx = a:b\n\n[ dynres.probes ]\n# y = c:d\n; z = e:f\nw = g.h : I [j]\n"
    )
    assert [(p.name, p.value) for p in plugin_entries.parse(text, "d")] == [("w", "g.h:I")]


def test_a_host_of_the_load_indices_alone_is_small():
    async def size():
        hosts = PluginHosts(PATH)
        hosts.start()
        try:
            answer = await hosts.run(Job(probe="load", plugin="load", timeout=20.0))
            assert answer.status == "ok"
            with open(f"/proc/{hosts.pids[0]}/smaps_rollup") as file:
                return next(int(ln.split()[1]) for ln in file if ln.startswith("Private_Dirty:"))
        finally:
            await hosts.close()

    assert asyncio.run(size()) < 8 * 1024
