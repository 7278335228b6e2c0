"""The shipped probes where they run: in a plugin host, and declared as their page says."""

import asyncio
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from dynres.config.load import load
from dynres.worker.plugin_client import Job, PluginHosts

PAGE = Path(__file__).parents[2] / "docs/probes.md"
BLOCKS = re.findall(r"```yaml\n(resources:.*?)```", PAGE.read_text(), re.DOTALL)
OPTIONS = {
    "disk": {"path": "/"},
    "mounts": {"paths": ["/"]},
    "licence": {"features": ["iris"], "command": ["/bin/true"]},
    "link": {"interface": "lo"},
    "unit": {"unit": "dbus", "optional": True},
    "count": {"files": "/etc/*"},
}
MOST = 25 * 1024
"""KB that a plugin host may have with every shipped probe in it."""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda text: text.split("name: ")[1].split()[0])
def test_every_declaration_of_the_page_is_valid(block: str, tmp_path: Path):
    (tmp_path / "resources.yaml").write_text(block)
    loaded = load(tmp_path, "agent")
    assert [str(fault) for fault in loaded.warnings] == []


def test_all_shipped_probes_share_a_plugin_host_of_bounded_memory():
    async def run():
        hosts = PluginHosts("/usr/sbin:/usr/bin:/sbin:/bin")
        hosts.start()
        try:
            answers = {}
            for name in sorted({p.name for p in entry_points(group="dynres.probes")}):
                job = Job(probe=name, plugin=name, options=OPTIONS.get(name, {}), timeout=20.0)
                answers[name] = await hosts.run(job)
            (pid,) = hosts.pids
            memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
        finally:
            await hosts.close()
        return answers, int(re.search(r"Pss: +(\d+)", memory)[1])

    answers, used = asyncio.run(run())
    failed = {n: a.reason for n, a in answers.items() if a.status != "ok"}
    assert failed == {"licence": "not served: iris; served are: none"}
    assert used <= MOST
