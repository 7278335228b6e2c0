"""A connection whose network is gone ends on both sides, also where neither says anything."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")

SOURCE = """
import asyncio, subprocess, time
from dynres.wire import link

link.HEARTBEAT_MS, link.HEARTBEAT_TIMEOUT_MS = 200, 600

def loopback(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

async def main():
    got, states = asyncio.Queue(), asyncio.Queue()
    listener = link.Listener("tcp://127.0.0.1:*", lambda *m: got.put_nowait(m))
    dealer = link.Dealer(listener.endpoint, lambda _: None, states.put_nowait)
    assert await asyncio.wait_for(states.get(), 5)
    assert dealer.send(b"x")
    peer, *_ = await asyncio.wait_for(got.get(), 5)
    assert listener.send(peer, b"y")
    loopback("down")
    assert not await asyncio.wait_for(states.get(), 15)
    deadline = time.monotonic() + 15
    while listener.send(peer, b"y"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    loopback("up")
    assert await asyncio.wait_for(states.get(), 15)
    assert dealer.send(b"again")
    assert (await asyncio.wait_for(got.get(), 5))[2] == b"again"
    dealer.close()
    listener.close()

loopback("up")
asyncio.run(main())
"""


def test_a_connection_ends_with_its_network_and_comes_back_with_it():
    command = ["unshare", "-n", sys.executable, "-c", SOURCE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
