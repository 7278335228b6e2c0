"""What a stream prints is read in batches, at a bounded rate, and to its end."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from dynres.worker import stream_pipe
from dynres.worker.stream_pipe import MOST, PAUSE, Allowance, StreamPipe


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for fd in ends:
        with suppress(OSError):
            os.close(fd)


def heard(pipe, then, allowance=None):
    """What is heard of a pipe while `then(pipe, chunks)` goes on."""

    async def listen():
        chunks = []
        reader = StreamPipe(pipe[0], allowance or Allowance(), chunks.append)
        async with asyncio.timeout(10):
            await then(reader, chunks)
        reader.close()
        return chunks

    return asyncio.run(listen())


async def until(true):
    while not true():
        await asyncio.sleep(0.001)


def test_what_is_printed_together_is_one_batch(pipe):
    async def lines(_reader, chunks):
        for n in range(50):
            os.write(pipe[1], b"a=%d\n" % n)
            await asyncio.sleep(0)
        await until(lambda: chunks)

    assert heard(pipe, lines) == [b"".join(b"a=%d\n" % n for n in range(50))]


def test_what_is_in_the_pipe_when_the_process_is_gone_is_taken(pipe):
    async def ends(reader, _chunks):
        os.write(pipe[1], b"a=1\n")
        reader.finish()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(pipe[0])

    assert heard(pipe, ends) == [b"a=1\n"]


def test_a_closed_stdout_is_let_go(pipe):
    async def closes(_reader, _chunks):
        os.close(pipe[1])
        await until(lambda: not Path(f"/proc/self/fd/{pipe[0]}").exists())

    assert heard(pipe, closes) == []


def test_while_all_streams_have_had_their_share_nothing_is_read(pipe, monkeypatch):
    monkeypatch.setattr(stream_pipe, "PAUSE", 0.05)
    spent = Allowance()

    async def waits(_reader, chunks):
        loop = asyncio.get_running_loop()
        spent.left(loop.time())
        spent.spend(MOST)
        os.write(pipe[1], b"a=1\n")
        begun = loop.time()
        await until(lambda: chunks)
        assert loop.time() - begun >= 0.04

    assert heard(pipe, waits, spent) == [b"a=1\n"]


def test_the_share_is_there_again_after_a_pause():
    allowance = Allowance()
    assert allowance.left(10.0)
    allowance.spend(MOST - 1)
    assert allowance.left(10.01)
    allowance.spend(1)
    assert not allowance.left(10.02)
    assert allowance.left(10.0 + PAUSE)
