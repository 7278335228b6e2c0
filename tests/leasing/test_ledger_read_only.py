"""The ledger's files cannot be written any more while the controller serves, and then they can."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cluster import wait_for
from standing import standing

from dynres.client import Client, ClientError

RESOURCES = """
resources:
  - name: iris
    flags: [shared, release]
    resourcemap:
      - {value: 10, location: [all]}
"""
HOSTS = "hosts: [{name: 'h[1-2]'}]\n"


class Immutable:
    """Files that not even root can write, by a descriptor that is open already neither."""

    def __init__(self, folder):
        self._files = [str(file) for file in sorted(folder.glob("ledger.db*"))]
        assert len(self._files) >= 2  # the log too

    def __enter__(self):
        subprocess.run(["chattr", "+i", *self._files], check=True)

    def __exit__(self, *_):
        subprocess.run(["chattr", "-i", *self._files], check=True)


@pytest.fixture
def here(tmp_path):
    _needs_immutable(tmp_path)
    with standing(tmp_path, RESOURCES, HOSTS) as made:
        yield made


def _needs_immutable(folder):
    """Skip where this file system takes writes to an immutable file, or has none."""
    file = folder / "try"
    file.write_text("x")
    if os.geteuid() != 0 or not shutil.which("chattr"):
        pytest.skip("needs root and chattr")
    descriptor = os.open(file, os.O_RDWR)
    done = subprocess.run(["chattr", "+i", str(file)], capture_output=True, check=False)
    try:
        os.pwrite(descriptor, b"y", 0)
    except OSError:
        return
    finally:
        os.close(descriptor)
        subprocess.run(["chattr", "-i", str(file)], capture_output=True, check=False)
    pytest.skip(f"this file system has no immutable files: {done.stderr!r}")


def refused(call):
    """The message of a verb that the ledger refuses."""
    with pytest.raises(ClientError) as told:
        call()
    assert told.value.code == "ledger"
    return str(told.value)


def test_a_ledger_that_becomes_read_only_grants_nothing_and_recovers_without_a_restart(here):
    state = here.folder / "state"
    with Client(here.endpoint, timeout=20) as client:
        client.acquire("held", ["h1"], {"iris": 6}, request="r1")
        # A mapped file would end the process with SIGBUS; that depends on what was written when.
        assert str(state) not in Path(f"/proc/{here.process.pid}/maps").read_text()
        waiting = here.begin(
            *("acquire", "--job", "waits", "--host", "h1", "--need", "iris=5", "--wait", "60s")
        )
        wait_for(lambda: client.pools().pools[0].waiting)
        with Immutable(state):
            asked = ("acquire", "--job", "new", "--host", "h1", "--need", "iris=1", "--json")
            done = here.call(*asked)
            error = json.loads(done.stdout)["error"]
            assert (done.returncode, error["code"]) == (1, "ledger")
            assert f"{state}/ledger.db: the ledger cannot be written" in error["message"]
            for verb in (
                lambda: client.release("held"),
                lambda: client.suspend("held"),
                lambda: client.set("iris", 3, pool="iris", reason="x", who="me"),
                lambda: client.close_hosts(["h1"], reason="x", who="me"),
                lambda: client.acquire("new", ["h2"], {"iris": 1}, request="r2"),
            ):
                assert "cannot be written" in refused(verb)
            assert "cannot be written" in here.log.read_text()
            # Reads go on, and nothing of what was refused has happened.
            assert [(one.job, one.amount) for one in client.leases().leases] == [("held", 6)]
            [pool] = client.pools().pools
            assert (pool.leased, pool.free, pool.override) == (6, 4, None)
            assert not client.values(["h1"]).hosts["h1"].closed
            assert [one.what for one in client.history().entries][:1] == ["granted"]
            assert client.acquire("held", ["h1"], {"iris": 6}, request="r1").answer == "granted"
        # What was refused can be asked again, without a restart.
        assert client.acquire("new", ["h2"], {"iris": 1}, request="r2").answer == "granted"
        assert [one.job for one in client.release("held").released] == ["held"]
        assert waiting.wait(20) == 0
        assert client.pools().pools[0].leased == 6
    here.kill()
    here.start()
    with Client(here.endpoint) as client:
        assert [one.job for one in client.leases().leases] == ["new", "waits"]
