import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from dynres.worker.claim import Claim, ClaimError, runtime_folder
from dynres.worker.local import LocalServer


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNRES_RUNTIME", str(tmp_path / "run"))
    return tmp_path / "run"


def test_the_runtime_folder_is_the_one_named_else_the_users_own_else_the_systems(monkeypatch):
    monkeypatch.delenv("DYNRES_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert str(runtime_folder()) == "/run/user/1000/dynres"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert str(runtime_folder()) == "/run/dynres"
    monkeypatch.setenv("DYNRES_RUNTIME", "/x")
    assert str(runtime_folder()) == "/x"


def test_a_second_agent_for_the_same_host_is_refused_naming_the_first(runtime):
    claim = Claim("h1")
    with pytest.raises(ClaimError, match=f"for host h1 is running, pid {os.getpid()}"):
        Claim("h1")
    Claim("h2").release()
    claim.release()
    Claim("h1").release()
    assert list(runtime.iterdir()) == []


HOLDER = """
import sys
from dynres.worker.claim import Claim
claim = Claim("h1")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_claim_ends_with_its_process_however_that_ends(runtime):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ClaimError, match=f"pid {holder.pid}"):
            Claim("h1")
        holder.send_signal(signal.SIGKILL)
    Claim("h1").release()


def test_a_folder_that_cannot_be_used_says_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYNRES_RUNTIME", str(tmp_path / "file"))
    with pytest.raises(ClaimError, match="DYNRES_RUNTIME"):
        Claim("h1")
    monkeypatch.setenv("DYNRES_RUNTIME", str(tmp_path / ("x" * 100)))
    with pytest.raises(ClaimError, match="too long for a socket"):
        Claim("h1")


async def ask(path, line):
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(line)
    if not line.endswith(b"\n"):
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return json.loads(answer) if answer else None


async def state():
    return {"host": "h1"}


def serving(path, check):
    async def run():
        server = LocalServer(path, {"status": state})
        await server.start()
        try:
            await check()
        finally:
            await server.close()

    asyncio.run(run())
    assert not path.exists()


def test_a_verb_is_one_line_in_and_one_line_out(tmp_path):
    path = tmp_path / "a.sock"

    async def check():
        assert path.stat().st_mode & 0o777 == 0o600
        assert await ask(path, b'{"verb": "status"}\n') == {"host": "h1"}

    serving(path, check)


@pytest.mark.parametrize("line", [b"status\n", b"{}\n", b'{"verb": ["status"]}\n', b"[1]\n", b"x"])
def test_what_is_no_verb_is_answered_with_what_is_expected(tmp_path, line):
    path = tmp_path / "a.sock"

    async def check():
        answer = await ask(path, line)
        assert answer["error"]["code"] == "usage"
        assert '{"verb": "status"}' in answer["error"]["message"]

    serving(path, check)


def test_a_line_without_an_end_is_not_read_for_ever(tmp_path):
    path = tmp_path / "a.sock"

    async def check():
        assert await ask(path, b"x" * 100_000) is None
        assert await ask(path, b'{"verb": "status"}\n') == {"host": "h1"}

    serving(path, check)


def test_the_socket_of_a_dead_agent_is_replaced(tmp_path):
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async def check():
        assert await ask(path, b'{"verb": "status"}\n') == {"host": "h1"}

    serving(path, check)
