"""A start that hangs is `stuck`; so is a process that even SIGKILL cannot end."""

import asyncio

import pytest
from hung_files import hung_files
from launching import CLEARED, marked, request, shell, sleep_time, until_async, with_launcher


async def over(client, asked):
    """Whether a run of `asked` ends otherwise than as `stuck`."""
    return (await client.run(asked)).status != "stuck"


@pytest.mark.parametrize("allow_unsafe", [False, True], ids=["in a stat", "in execve"])
def test_a_hung_start_is_stuck_at_its_timeout_and_costs_no_other_probe_anything(
    tmp_path, allow_unsafe
):
    def hung():
        return request(f"{tmp_path}/dead/probe", timeout=0.4, allow_unsafe=allow_unsafe)

    async def runs(client):
        with hung_files(tmp_path / "dead") as files:
            first = asyncio.create_task(client.run(hung()))
            others = [await client.run(shell("exit 0")) for _ in range(20)]
            assert {other.status for other in others} == {"exited"}
            result = await first
            assert result.status == "stuck"
            assert "its start does not come back" in result.reason
            again = await client.run(hung())
            assert (again.status, again.duration < 0.3) == ("stuck", True)
            assert again.reason.startswith("still there: ")
            files.let_go()
        for _ in range(100):
            if await over(client, hung()):
                return client.pids()
            await asyncio.sleep(0.02)
        raise AssertionError("its command is never tried again")

    assert len(with_launcher(runs)) == 1


def test_beside_a_hung_start_each_orphan_is_still_charged_to_its_own_run(tmp_path):
    kept, killed = sleep_time(), sleep_time()

    async def runs(client):
        with hung_files(tmp_path / "dead"):
            hung = [
                client.run(request(f"{tmp_path}/dead/{n}", timeout=0.4, allow_unsafe=True))
                for n in range(2)
            ]
            starts = [asyncio.create_task(one) for one in hung]
            keeps = shell(f"({CLEARED} /bin/sleep {kept} &); sleep 60", run="keeps")
            task = asyncio.create_task(client.run(keeps))
            leaving = shell(f"{CLEARED} /bin/sleep {killed} & sleep 0.1")
            results = await asyncio.gather(
                *(client.run(leaving._replace(run=str(n))) for n in range(10))
            )
            seen = {r.status for r in results}, marked(killed), len(marked(kept))
            client.cancel("keeps")
            await task
            assert {(await start).status for start in starts} == {"stuck"}
            return *seen, marked(kept)

    assert with_launcher(runs) == ({"exited"}, [], 2, [])  # kept: the shell, and what it left


def test_more_hung_starts_than_threads_replace_the_launcher(tmp_path):
    async def runs(client):
        before = client.pids()
        with hung_files(tmp_path / "dead"):
            for wave in "abc":
                asked = [request(f"{tmp_path}/dead/{wave}{n}", timeout=0.3) for n in range(9)]
                results = await asyncio.gather(*(client.run(one) for one in asked))
                assert {r.status for r in results} <= {"stuck", "start_error", "cancelled"}
            assert await until_async(lambda: client.pids() and client.pids() != before)
            return await client.run(shell("echo 5"))

    assert with_launcher(runs).stdout == b"5\n"


def test_the_launcher_ends_although_a_start_hangs(tmp_path):
    async def runs(client):
        task = asyncio.create_task(client.run(request(f"{tmp_path}/dead/probe")))
        await client.run(shell("exit 0"))
        await client.close()
        return await task

    with hung_files(tmp_path / "dead"):
        assert with_launcher(runs).status == "cancelled"


def test_a_process_that_sigkill_cannot_end_is_stuck_and_has_no_second_copy(tmp_path):
    def hung():
        return shell(f"exec cat {tmp_path}/dead/file", timeout=0.2)

    async def runs(client):
        with hung_files(tmp_path / "dead", unkillable=True) as files:
            result = await client.run(hung())
            assert result.status == "stuck"
            assert "cannot be killed" in result.reason
            assert (await client.run(hung())).reason.startswith("still there: process ")
            assert (await client.run(shell("exit 0"))).status == "exited"
            files.let_go()
        for _ in range(100):
            if await over(client, hung()):
                return True
            await asyncio.sleep(0.02)
        return False

    assert with_launcher(runs)


def test_a_process_left_behind_that_sigkill_cannot_end_makes_the_run_stuck(tmp_path):
    async def runs(client):
        with hung_files(tmp_path / "dead", unkillable=True):
            script = f"setsid cat {tmp_path}/dead/file & sleep 0.3; exit 0"
            result = await client.run(shell(script))
            assert result.status == "stuck"
            assert "it left process" in result.reason
            return await client.run(shell("echo 5"))

    assert with_launcher(runs).stdout == b"5\n"
