"""Our plain text says what prometheus_client's own says, and a request decides about its form."""

import gzip
import http.client
import socket
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from test_metrics import READY, page_of

from dynres.exposition import plain_text
from dynres.metrics import (
    DURATIONS,
    AgentMetrics,
    ControllerMetrics,
    ControllerNumbers,
    CurrentValue,
)
from dynres.page import Page


def filled() -> CollectorRegistry:
    registry = CollectorRegistry()
    counter = Counter("runs", "Runs.\nAnd \\ more.", ["probe"], registry=registry)
    counter.labels('a "quoted" \\ name\nin two lines, ü').inc(3)
    for name, number in {"inf": float("inf"), "less": -float("inf"), "nan": float("nan")}.items():
        Gauge(name, name, registry=registry).set(number)
    Gauge("many", "", ["b", "a"], registry=registry).labels("1", "2").set(12345678901.5)
    histogram = Histogram("spans", "Spans.", ["p"], buckets=(0.1, 1.0, 1e7), registry=registry)
    histogram.labels("x").observe(0.5)
    Info("build", "It.", registry=registry).info({"version": "1"})
    return registry


def families(text: str) -> list[tuple[str, str, str, list[str]]]:
    return [
        (f.name, f.type, f.documentation, [f"{s.name} {s.labels} {s.value}" for s in f.samples])
        for f in text_string_to_metric_families(text)
    ]


def test_durations_are_the_histogram_that_the_library_would_make() -> None:
    spans = [0.0001, 0.005, 0.0051, 0.3, 60.0, 61.0]
    metrics, registry = AgentMetrics(list), CollectorRegistry()
    own = Histogram(
        "dynres_probe_duration_seconds",
        "How long a probe run took.",
        ["probe"],
        buckets=DURATIONS,
        registry=registry,
    )
    for seconds in spans:
        for probe in ("p", "q"):
            metrics.ran(probe, "ok", seconds)
            own.labels(probe).observe(seconds)
    ours = [f for f in metrics.registry.collect() if f.name == "dynres_probe_duration_seconds"]
    told = [families(plain_text(found).decode()) for found in (ours, registry.collect())]
    without = [
        [line for line in lines if "_created" not in line] for *_, lines in told[0] + told[1]
    ]
    assert without[0] == without[2]
    assert len(told[0][1][3]) == 2  # when each was created


@pytest.mark.parametrize(
    "registry",
    [
        filled(),
        AgentMetrics(lambda: [CurrentValue("os", 'el9 "x"', 1.0)]).registry,
        ControllerMetrics(lambda: ControllerNumbers({"up": 1}, [], [])).registry,
    ],
    ids=["all kinds", "agent", "controller"],
)
def test_the_text_says_what_the_librarys_own_text_says(registry: CollectorRegistry) -> None:
    for collector in list(registry._collector_to_names):
        if type(collector).__name__ == "ProcessCollector":
            registry.unregister(collector)  # its numbers change meanwhile
    ours = plain_text(registry.collect()).decode()
    assert families(ours) == families(generate_latest(registry).decode())


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with page_of(AgentMetrics(lambda: [CurrentValue("r", 1.0, 1.0)]), READY) as served:
        yield served


def get(page: Page, path: str, method: str = "GET", **headers: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(page.address, timeout=5)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers={"Accept-Encoding": "identity", **named})
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read()
    finally:
        connection.close()


def test_a_scraper_that_takes_openmetrics_gets_it(page: Page) -> None:
    _, kind, body = get(page, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text; version=")
    assert body.endswith(b"# EOF\n")
    _, kind, body = get(page, "/metrics", accept="*/*")
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# EOF" not in body


def test_a_scraper_that_takes_gzip_gets_it(page: Page) -> None:
    _, _, body = get(page, "/metrics", accept_encoding="br, gzip;q=0.5")
    assert b"dynres_resource_value" in gzip.decompress(body)


def test_series_can_be_chosen_by_name(page: Page) -> None:
    _, _, body = get(page, "/metrics?name%5B%5D=dynres_build_info")
    names = {family.name for family in text_string_to_metric_families(body.decode())}
    assert names == {"dynres_build_info"}


def test_head_has_no_body_and_other_methods_are_refused(page: Page) -> None:
    assert get(page, "/healthz", "HEAD")[0::2] == (200, b"")
    assert get(page, "/metrics", "POST")[0] == 405


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/2\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
    ],
)
def test_what_is_no_request_is_refused(page: Page, sent: bytes, status: bytes) -> None:
    host, port = page.address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(sent)
        assert connection.recv(100).split()[1] == status


def test_a_daemon_that_cannot_answer_now_says_so() -> None:
    def busy() -> list[CurrentValue]:
        raise TimeoutError

    with page_of(AgentMetrics(busy), READY) as served:
        assert get(served, "/metrics")[0] == 503
        assert get(served, "/healthz")[0] == 200
