"""Hosts that start again have a new boot id: what was held for them is marked, never freed."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cluster import cluster, wait_for
from handmade import hello
from serving import serving

from dynres.client import Client
from dynres.wire.messages import Welcome

RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 10, location: [all]}
  - name: scratch
    flags: [consumable]
    resourcemap:
      - {value: 100, location: [default]}
"""
HOSTS = "hosts: [{name: 'h[1-2]'}]\n"
pytestmark = pytest.mark.anyio
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NAMESPACE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))


def booted(file: Path, name: str) -> tuple[str, ...]:
    """The start of a command that sees the file in place of the kernel's boot id."""
    file.write_text(f"{name}\n")
    script = f'mount --bind "$1" {BOOT_ID} && shift && exec "$@"'
    return (*NAMESPACE, "sh", "-c", script, "sh", str(file))


@pytest.fixture
def site(tmp_path):
    done = None
    if shutil.which("unshare"):
        command = (*booted(tmp_path / "try", "try"), "cat", BOOT_ID)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done is None or done.stdout != "try\n":
        pytest.skip("needs a mount namespace of its own")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "resources.yaml").write_text(RESOURCES)
    (folder / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "home").mkdir()
    with cluster(folder, tmp_path / "home") as made:
        made.start_controller()
        yield made


def test_leases_of_before_a_reboot_are_marked_shown_and_held_until_reconcile(site):
    endpoint = site.env["DYNRES_CONTROLLER"]
    with Client(endpoint, timeout=20) as client:

        def start(boot):
            site.start_agent("h1", under=booted(site.home / boot, boot))
            wait_for(lambda: "h1" in client.hosts().hosts)

        client.acquire("nobody-there", ["h2"], {"iris": 1})
        start("boot-a")
        client.acquire("before", ["h1"], {"iris": 4, "scratch": 30})
        site.daemons["h1"].stop()
        wait_for(lambda: not client.hosts().hosts)
        assert {one.note for one in client.leases().leases} == {None}  # lost only
        start("boot-b")
        client.acquire("after", ["h1"], {"iris": 2})

        def notes():
            return {(one.job, one.resource): one.note for one in client.leases().leases}

        wait_for(lambda: notes()["before", "iris"])
        assert notes() == {
            ("nobody-there", "iris"): None,
            ("before", "iris"): "host_rebooted",
            ("before", "scratch"): "host_rebooted",
            ("after", "iris"): None,
        }
        told = site.call("leases", "--job", "before").stdout
        assert told.count("host_rebooted") == 2
        history = [(one.what, one.detail) for one in client.history(job="before").entries]
        assert history == [("granted", None)] * 2 + [("noted", "host_rebooted")] * 2
        assert "of job before: h1 has started again since" in site.logs()
        leased = {(one.resource, one.instance): one.leased for one in client.pools().pools}
        assert leased["iris", "iris"] == 7
        assert leased["scratch", "h1"] == 30
        freed = client.reconcile(["after", "nobody-there"], time.time()).released
        assert {(one.job, one.resource) for one in freed} == {
            ("before", "iris"),
            ("before", "scratch"),
        }
        assert json.loads(site.call("pools", "--json").stdout)["pools"][0]["leased"] == 3


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_a_host_without_a_boot_id_is_not_taken_to_have_started_again(tmp_path):
    async with serving(tmp_path, RESOURCES, HOSTS) as (made, client):
        for number, boot in enumerate(("boot-a", "", "boot-a", "boot-b")):
            agent = made.agent()
            await agent.say(hello("h1", boot_id=boot, session=f"s{number}"))
            await agent.hear(Welcome)
            await client.acquire(f"in-{number}", ["h1"], {"iris": 1})
            agent.close()
        leases = {one.job: one.note for one in (await client.leases()).leases}
        assert leases == {
            "in-0": "host_rebooted",
            "in-1": None,
            "in-2": "host_rebooted",
            "in-3": None,
        }
