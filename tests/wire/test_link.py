"""The link carries each message once, tells what is lost, and never blocks."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from cluster import free_port

from dynres.wire.link import Dealer, LinkError, Listener, Requester, is_loopback


def test_messages_go_both_ways_and_the_address_of_the_peer_is_known() -> None:
    async def main() -> None:
        got: asyncio.Queue[tuple[bytes, str, bytes]] = asyncio.Queue()
        back: asyncio.Queue[bytes] = asyncio.Queue()
        up = asyncio.Event()
        listener = Listener("tcp://127.0.0.1:*", lambda *m: got.put_nowait(m))
        dealer = Dealer(listener.endpoint, back.put_nowait, lambda ok: up.set() if ok else None)
        await asyncio.wait_for(up.wait(), 5)
        for n in range(500):
            assert dealer.send(b"%d" % n) or await _retry(dealer, b"%d" % n)
        for n in range(500):
            peer, address, body = await asyncio.wait_for(got.get(), 5)
            assert body == b"%d" % n
            assert address == "127.0.0.1"
            assert listener.send(peer, body)
        assert [await asyncio.wait_for(back.get(), 5) for _ in range(500)] == [
            b"%d" % n for n in range(500)
        ]
        dealer.close()
        listener.close()

    asyncio.run(main())


async def _retry(dealer: Dealer, body: bytes) -> bool:
    for _ in range(1000):
        await asyncio.sleep(0.001)
        if dealer.send(body):
            return True
    return False


def test_a_dead_peer_is_told_at_once() -> None:
    async def main() -> None:
        got: asyncio.Queue[tuple[bytes, str, bytes]] = asyncio.Queue()
        up = asyncio.Event()
        listener = Listener("tcp://127.0.0.1:*", lambda *m: got.put_nowait(m))
        dealer = Dealer(listener.endpoint, lambda _: None, lambda ok: up.set() if ok else None)
        await asyncio.wait_for(up.wait(), 5)
        dealer.send(b"x")
        peer, _, _ = await asyncio.wait_for(got.get(), 5)
        dealer.close()
        deadline = time.monotonic() + 5
        while listener.send(peer, b"y"):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        listener.close()

    asyncio.run(main())


def test_a_connection_that_is_lost_comes_back_and_both_are_said() -> None:
    async def main() -> None:
        states: asyncio.Queue[bool] = asyncio.Queue()
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        dealer = Dealer(endpoint, lambda _: None, states.put_nowait)
        assert not dealer.send(b"nobody there")
        for _ in range(2):
            listener = Listener(endpoint, lambda *_: None)
            assert await asyncio.wait_for(states.get(), 5) is True
            listener.close()
            assert await asyncio.wait_for(states.get(), 5) is False
        dealer.close()

    asyncio.run(main())


def test_a_message_of_several_parts_is_not_ours_and_arrives_empty() -> None:
    import zmq

    async def main() -> None:
        got: asyncio.Queue[tuple[bytes, str, bytes]] = asyncio.Queue()
        listener = Listener("tcp://127.0.0.1:*", lambda *m: got.put_nowait(m))
        with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
            stranger.linger = 0
            stranger.connect(listener.endpoint)
            stranger.send_multipart([b"a", b"b", b"c"])
            stranger.send(b"fine")
            assert (await asyncio.wait_for(got.get(), 5))[2] == b""
            assert (await asyncio.wait_for(got.get(), 5))[2] == b"fine"
        listener.close()

    asyncio.run(main())


def test_a_port_in_use_is_a_clear_error() -> None:
    async def main() -> None:
        first = Listener("tcp://127.0.0.1:*", lambda *_: None)
        with pytest.raises(LinkError, match="port in use"):
            Listener(first.endpoint, lambda *_: None)
        first.close()

    asyncio.run(main())


def test_an_endpoint_that_is_none_is_a_clear_error() -> None:
    async def main() -> None:
        with pytest.raises(LinkError, match="not an endpoint such as"):
            Dealer("localhost 5750", lambda _: None, lambda _: None)
        with pytest.raises(LinkError, match="not an endpoint such as"):
            Listener("tcp//x", lambda *_: None)

    asyncio.run(main())
    requester = Requester(["nonsense"])
    with pytest.raises(LinkError, match="not an endpoint such as"):
        requester.request(b"x", 1)
    requester.close()


def test_a_request_goes_to_the_next_endpoint_when_the_first_is_silent(tmp_path: Path) -> None:
    ready = threading.Event()
    done = threading.Event()
    endpoints: list[str] = []

    def serve() -> None:
        async def main() -> None:
            listener = Listener(
                f"ipc://{tmp_path}/s", lambda peer, _, body: listener.send(peer, body + b"!")
            )
            endpoints.append(listener.endpoint)
            ready.set()
            await asyncio.to_thread(done.wait)
            listener.close()

        asyncio.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait(5)
    requester = Requester([f"tcp://127.0.0.1:{free_port()}", endpoints[0]])
    assert requester.request(b"a", 2) == b"a!"
    # the endpoint that answered is asked first from now on
    assert requester.request(b"b", 0.5) == b"b!"
    requester.close()
    done.set()
    thread.join()


def test_a_controller_that_is_not_there_is_said_in_time() -> None:
    requester = Requester([f"tcp://127.0.0.1:{free_port()}"])
    begun = time.monotonic()
    with pytest.raises(LinkError, match=r"no answer from tcp://127\.0\.0\.1"):
        requester.request(b"x", 0.2)
    assert time.monotonic() - begun < 5
    requester.close()


def test_a_controller_that_is_not_there_is_said_in_time_for_a_request_that_may_take_long() -> None:
    requester = Requester([f"tcp://127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{free_port()}"])
    begun = time.monotonic()
    with pytest.raises(LinkError, match="no answer from"):
        requester.request(b"x", 600)
    assert time.monotonic() - begun < 6
    requester.close()


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("tcp://127.0.0.1:5750", True),
        ("tcp://127.1.2.3:5750", True),
        ("tcp://[::1]:5750", True),
        ("tcp://localhost:5750", True),
        ("ipc:///run/x", True),
        ("tcp://0.0.0.0:5750", False),
        ("tcp://10.1.2.3:5750", False),
        ("tcp://controller.example.org:5750", False),
    ],
)
def test_only_this_machine_can_reach_a_loopback_endpoint(endpoint: str, expected: bool) -> None:
    assert is_loopback(endpoint) is expected


def test_a_message_whose_handling_fails_does_not_keep_back_those_behind_it() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        got: asyncio.Queue[bytes] = asyncio.Queue()
        up = asyncio.Event()

        def take(_peer: bytes, _address: str, body: bytes) -> None:
            got.put_nowait(body)
            if int(body) % 3 == 0:
                raise ValueError

        listener = Listener("tcp://127.0.0.1:*", take)
        dealer = Dealer(listener.endpoint, lambda _: None, lambda ok: up.set() if ok else None)
        await asyncio.wait_for(up.wait(), 5)
        for n in range(10):
            assert dealer.send(b"%d" % n) or await _retry(dealer, b"%d" % n)
        taken = [await asyncio.wait_for(got.get(), 5) for _ in range(10)]
        assert taken == [b"%d" % n for n in range(10)]
        dealer.close()
        listener.close()

    asyncio.run(main())
