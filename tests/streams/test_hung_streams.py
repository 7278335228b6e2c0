"""A stream whose start hangs is stuck, and not tried again until that has come back."""

import asyncio
from unittest.mock import patch

import msgspec
from hung_files import hung_files
from streaming import spec, streaming

from dynres.worker.streams import Stream


def at(path, **probe):
    plain = spec("", name="hung", resources={"h": "numeric"}, **probe)
    return msgspec.structs.replace(
        plain, probe=msgspec.structs.replace(plain.probe, command=(str(path),))
    )


async def soon(self, seconds):
    await asyncio.sleep(0.05)


@streaming
async def test_a_stream_whose_start_hangs_is_stuck_and_the_others_go_on(here, tmp_path):
    with hung_files(tmp_path / "dead") as files, patch.object(Stream, "_sleep", soon):
        launchers = here.runner._launcher.pids()
        other = "i=0; while sleep 0.02; do i=$((i+1)); echo $i; done"
        here.run(at(tmp_path / "dead" / "probe", timeout=0.4), spec(other))
        await here.until(lambda: len(here.failures()) >= 3)
        first, *more = here.failures()
        assert (first.probe, first.outcome) == ("hung", "stuck")
        assert "its start does not come back" in first.reason
        for again in more:
            assert (again.probe, again.outcome) == ("hung", "stuck")
            assert again.reason.startswith("still there: ")
            assert again.duration < 0.3  # refused, not tried
        seen = here.value()
        await here.until(lambda: here.value() > seen)
        files.let_go()
        await here.until(lambda: here.failures()[-1].outcome == "start_error")
        assert here.state("hung").pid is None
        assert (here.state().starts, here.runner._launcher.pids()) == (1, launchers)
