"""The client library: endpoints, time limits, threads, and answers that are none."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster import free_port

from dynres.client import AsyncClient, Client, RequestRefusedError, UnreachableError
from dynres.wire.codec import encode
from dynres.wire.link import Listener
from dynres.wire.requests import (
    AskHosts,
    Call,
    Failure,
    Hosts,
    Pools,
    Reloaded,
    Result,
    read_call,
)
from dynres.wire.views import HostsView, PoolsView

Answer = Callable[[Call], bytes | None]


@contextlib.contextmanager
def controller(answer: Answer) -> Iterator[str]:
    """Something that answers as the test says, in a thread; its endpoint."""
    ready: list[str] = []
    started = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    stop = asyncio.Event()

    async def serve() -> None:
        def take(peer: bytes, _: str, body: bytes) -> None:
            said = answer(read_call(body))
            if said is not None:
                listener.send(peer, said)

        listener = Listener("tcp://127.0.0.1:0", take)
        ready.append(listener.endpoint)
        loops.append(asyncio.get_running_loop())
        started.set()
        await stop.wait()
        listener.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(20)
    try:
        yield ready[0]
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(20)


def echo(call: Call) -> bytes:
    """Hosts: those that were asked for."""
    names = call.request.hosts if isinstance(call.request, AskHosts) else ()
    view = HostsView(hosts=names, unknown=(), details={})
    return encode(Result(id=call.id, answer=Hosts(view=view)))


def nowhere() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def test_an_answer_comes_back_typed() -> None:
    with controller(echo) as endpoint, Client(endpoint) as client:
        assert client.hosts(hosts=["a", "b"]) == HostsView(hosts=("a", "b"), unknown=(), details={})


def test_a_controller_that_is_not_there_is_unreachable_in_time() -> None:
    begun = time.monotonic()
    with Client(nowhere()) as client, pytest.raises(UnreachableError) as caught:
        client.hosts(timeout=0.3)
    assert caught.value.code == "unreachable"
    assert time.monotonic() - begun < 5


def test_a_controller_that_is_silent_is_unreachable_in_time() -> None:
    with (
        controller(lambda _: None) as endpoint,
        Client(endpoint) as client,
        pytest.raises(UnreachableError),
    ):
        client.hosts(timeout=0.3)


def test_the_next_endpoint_is_tried_when_one_does_not_answer() -> None:
    with controller(echo) as endpoint, Client([nowhere(), endpoint]) as client:
        assert client.hosts(hosts=["a"], timeout=4).hosts == ("a",)
        begun = time.monotonic()
        assert client.hosts(hosts=["b"], timeout=60).hosts == ("b",)
        assert time.monotonic() - begun < 20  # it stays with the one that answered


@pytest.mark.parametrize("endpoint", ["", "host1", "tcp://", "tcp://host1"])
def test_what_is_no_endpoint_is_unreachable(endpoint: str) -> None:
    with Client(endpoint) as client, pytest.raises(UnreachableError, match="endpoint"):
        client.hosts(timeout=0.3)


def test_no_endpoint_at_all_is_an_error() -> None:
    with pytest.raises(UnreachableError):
        Client([])


def test_a_refusal_has_its_code_message_and_faults() -> None:
    fault = {"place": "resources.yaml:1:1", "what": "bad"}
    failure = Failure(code="config", message="refused", faults=(fault,))
    with (
        controller(lambda call: encode(Result(id=call.id, answer=failure))) as endpoint,
        Client(endpoint) as client,
        pytest.raises(RequestRefusedError, match="refused") as caught,
    ):
        client.reload()
    assert (caught.value.code, caught.value.faults) == ("config", (fault,))


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: b"\xc1",
        lambda _: b"",
        lambda call: encode(Result(id="another", answer=Pools(view=PoolsView(pools=())))),
        lambda call: encode(Result(id=call.id, answer=Reloaded())),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: Answer) -> None:
    with (
        controller(answer) as endpoint,
        Client(endpoint) as client,
        pytest.raises(RequestRefusedError) as caught,
    ):
        client.pools()
    assert caught.value.code == "protocol"


def test_many_threads_each_get_their_own_answer() -> None:
    def ask(number: int) -> bool:
        return client.hosts(hosts=[f"h{number}"], timeout=20).hosts == (f"h{number}",)

    with (
        controller(echo) as endpoint,
        Client(endpoint) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        assert all(pool.map(ask, range(200)))


def test_a_late_answer_is_never_taken_for_the_next_one() -> None:
    kept: list[bytes] = []

    def late(call: Call) -> bytes | None:
        if not kept:
            kept.append(echo(call))
            return None
        return echo(call)

    with controller(late) as endpoint, Client(endpoint) as client:
        with pytest.raises(UnreachableError):
            client.hosts(hosts=["first"], timeout=0.3)
        assert client.hosts(hosts=["second"]).hosts == ("second",)


def test_a_text_in_place_of_a_list_of_names_is_told() -> None:
    with Client(nowhere()) as client, pytest.raises(TypeError, match="list of names"):
        client.hosts(hosts="host1")


def test_the_first_argument_of_hosts_is_the_requirement() -> None:
    asked: list[AskHosts] = []

    def note(call: Call) -> bytes:
        assert isinstance(call.request, AskHosts)
        asked.append(call.request)
        return echo(call)

    with controller(note) as endpoint, Client(endpoint) as client:
        client.hosts("gpu && mem >= 5 GB", hosts=["a"])
        with pytest.raises(TypeError, match="expected a requirement as text"):
            client.hosts(["a"])  # type: ignore[arg-type]
    assert [(one.where, one.hosts) for one in asked] == [("gpu && mem >= 5 GB", ("a",))]


@pytest.mark.parametrize("amount", [True, None, b"1", [1]])
def test_an_amount_that_is_no_number_is_told_by_name(amount: object) -> None:
    with Client(nowhere()) as client, pytest.raises(TypeError, match="iris: expected an amount"):
        client.acquire("1", ["h1"], {"iris": amount})  # type: ignore[dict-item]


def test_the_async_client_has_the_same_verbs() -> None:
    async def go(endpoint: str) -> None:
        async with AsyncClient(endpoint) as client:
            answers = await asyncio.gather(*(client.hosts(hosts=[f"h{n}"]) for n in range(20)))
            assert [a.hosts for a in answers] == [(f"h{n}",) for n in range(20)]
        async with AsyncClient(nowhere()) as client:
            with pytest.raises(UnreachableError):
                await client.values(timeout=0.2)

    verbs = {name for name in vars(Client) if not name.startswith("_")}
    assert verbs == {name for name in vars(AsyncClient) if not name.startswith("_")}
    with controller(echo) as endpoint:
        asyncio.run(go(endpoint))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.acquire(4711, ["h1"], {"iris": 1}), "job: expected a text, got 4711; '4711'?"),
        (lambda c: c.acquire("1", [7], {"iris": 1}), "host: expected a text, got 7"),
        (lambda c: c.acquire("1", {"h1": "4"}, {"iris": 1}), "slots on h1: expected a whole numb"),
        (lambda c: c.acquire("1", ["h1"], {5: 1}), "resource: expected a text, got 5"),
        (lambda c: c.acquire("1", ["h1"], [5]), "need: expected a text, got 5"),
        (lambda c: c.acquire("1", ["h1"], ["a=1"], ttl="60s"), "ttl: expected a number of seconds"),
        (lambda c: c.acquire("1", ["h1"], ["a=1"], request=1), "request: expected a text, got 1"),
        (lambda c: c.release(4711), "job: expected a text, got 4711"),
        (lambda c: c.release(lease=17), "lease: expected a text, got 17"),
        (lambda c: c.release(lease=[17]), "a name: expected a text, got 17"),
        (lambda c: c.renew(4711), "job: expected a text, got 4711"),
        (lambda c: c.suspend(4711), "job: expected a text, got 4711"),
        (lambda c: c.resume(4711), "job: expected a text, got 4711"),
        (lambda c: c.reconcile([1, 2], 0.0), "a name: expected a text, got 1"),
        (lambda c: c.leases(job=4711), "job: expected a text, got 4711"),
        (lambda c: c.history(job=4711), "job: expected a text, got 4711"),
        (lambda c: c.history(since="1h"), "since: expected a number of seconds, got '1h'"),
        (lambda c: c.set("r", [1], hosts=["h1"], reason="x"), "value: expected a number, a text"),
        (lambda c: c.set("r", 1, hosts=["h1"], reason=5), "reason: expected a text, got 5"),
        (lambda c: c.close_hosts([1], reason="x"), "a name: expected a text, got 1"),
        (lambda c: c.explain(1, "iris"), "host: expected a text, got 1"),
        (lambda c: c.values([1]), "a name: expected a text, got 1"),
        (lambda c: c.hosts(5), "where: expected a requirement as text, got 5"),
    ],
)
def test_what_is_no_text_or_number_is_told_by_its_name_before_anything_is_asked(call, said):
    with Client("tcp://127.0.0.1:1") as client, pytest.raises(TypeError) as told:
        call(client)
    assert str(told.value).startswith(said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.hosts('os == "\udcff"'), "is no UTF-8 text"),
        (lambda client: client.leases(job="\ud800"), "is no UTF-8 text"),
        (lambda client: client.acquire("1", {"h1": 10**20}, {"iris": 1}), "too large"),
        (lambda client: client.acquire("\udcff", ["h1"], {"iris": 1}, wait=1), "is no UTF-8"),
    ],
)
def test_what_cannot_be_sent_is_refused_as_usage(
    call: Callable[[Client], object], said: str
) -> None:
    with Client("tcp://127.0.0.1:1") as client, pytest.raises(RequestRefusedError) as caught:
        call(client)
    assert caught.value.code == "usage"
    assert said in str(caught.value)
