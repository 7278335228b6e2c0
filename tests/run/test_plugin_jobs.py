"""Jobs of plugins that share a host: who waits for whom, and which of them need a thread."""

import asyncio
from pathlib import Path

from hosts import job, run, until

from dynres.worker.plugin_client import PluginHosts


def test_a_run_that_is_kept_waiting_by_another_does_not_pay_for_it() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        stat = Path(f"/proc/{hosts.pids[0]}/stat")

        def busy() -> int:
            return int(stat.read_text().rpartition(")")[2].split()[11])  # ticks in user mode

        before = busy()
        holder = asyncio.create_task(hosts.run(job("regex", timeout=1.4)))
        await until(lambda: busy() >= before + 5)
        waiting = await hosts.run(job("counter", timeout=0.7))
        assert waiting.payload[0][2] == 1.0  # in a host of its own, and not set apart
        assert (await holder).status == "timeout"
        assert hosts.apart == ("regex",)

    run(body)


def test_the_load_indices_start_no_thread_while_they_are_alone(tmp_path: Path) -> None:
    async def body(hosts: PluginHosts) -> None:
        for _ in range(3):
            assert (await hosts.run(job("load"))).status == "ok"
        (pid,) = hosts.pids
        assert list(Path(f"/proc/{pid}/task").iterdir()) == [Path(f"/proc/{pid}/task/{pid}")]
        other = asyncio.create_task(hosts.run(job("gate", folder=str(tmp_path))))
        await until(lambda: any(tmp_path.iterdir()))
        assert (await hosts.run(job("load"))).status == "ok"  # beside others they have one
        (tmp_path / "open").touch()
        assert (await other).status == "ok"
        assert hosts.pids == [pid]

    run(body)


def test_a_job_that_was_cut_short_and_then_breaks_its_host_is_set_apart_all_the_same() -> None:
    async def body(hosts: PluginHosts) -> None:
        await hosts.run(job("counter"))
        task = asyncio.create_task(hosts.run(job("sleep", timeout=0.3)))
        await until(lambda: hosts._last)
        hosts.cancel("sleep")
        assert (await task).status == "cancelled"
        await until(lambda: hosts.apart)
        assert hosts.apart == ("sleep",)

    run(body)
