"""What the metrics pages show, over real HTTP."""

import asyncio
import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dynres.metrics import (
    AgentMetrics,
    ControllerMetrics,
    ControllerNumbers,
    CurrentValue,
    PoolNumbers,
    on_loop,
)
from dynres.page import Health, Page, PageError, serve_page

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@contextmanager
def page_of(metrics: AgentMetrics | ControllerMetrics, health: Health) -> Iterator[Page]:
    page = serve_page("127.0.0.1:0", metrics.app(), lambda: health)
    try:
        yield page
    finally:
        page.close()


def get(page: Page, path: str) -> tuple[int, str]:
    host, port = page.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def series(page: Page) -> Series:
    status, text = get(page, "/metrics")
    assert status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


READY = Health(True, "ready")


def test_numbers_and_booleans_are_values_and_strings_are_labels() -> None:
    values = [
        CurrentValue("scratch", 12.5, 1.0),
        CurrentValue("gpu", True, 2.0),
        CurrentValue("os", "el9", None),
    ]
    with page_of(AgentMetrics(lambda: values), READY) as page:
        found = series(page)
    assert found["dynres_resource_value", (("resource", "scratch"),)] == 12.5
    assert found["dynres_resource_value", (("resource", "gpu"),)] == 1
    assert found["dynres_resource_info", (("resource", "os"), ("value", "el9"))] == 1
    assert found["dynres_resource_age_seconds", (("resource", "gpu"),)] == 2
    assert ("dynres_resource_age_seconds", (("resource", "os"),)) not in found


def test_several_pools_of_one_resource_are_series_of_their_own() -> None:
    values = [CurrentValue("lic", 12.0, 1.0, pool="north"), CurrentValue("lic", 3.0, 1.0, pool="b")]
    with page_of(AgentMetrics(lambda: values), READY) as page:
        found = series(page)
    assert found["dynres_resource_value", (("pool", "north"), ("resource", "lic"))] == 12
    assert found["dynres_resource_age_seconds", (("pool", "b"), ("resource", "lic"))] == 1


def test_an_unavailable_value_has_no_series() -> None:
    with page_of(AgentMetrics(lambda: [CurrentValue("r", None, 70.0)]), READY) as page:
        found = series(page)
    assert ("dynres_resource_value", (("resource", "r"),)) not in found


def test_a_removed_resource_or_probe_leaves_no_series() -> None:
    values = [CurrentValue("old", 1.0, 1.0), CurrentValue("new", 1.0, 1.0)]
    metrics = AgentMetrics(lambda: values)
    metrics.ran("old", "ok", 0.1)
    metrics.ran("old", "timeout", 1.0)
    metrics.ran("new", "ok", 0.1)
    with page_of(metrics, READY) as page:
        assert any(("probe", "old") in labels for _, labels in series(page))
        del values[0]
        metrics.keep_only({"new"})
        left = {label for _, labels in series(page) for label in labels}
    assert ("probe", "old") not in left
    assert ("resource", "old") not in left
    assert ("probe", "new") in left


def test_runs_are_counted_by_probe_and_outcome() -> None:
    metrics = AgentMetrics(list)
    metrics.ran("p", "ok", 0.02)
    metrics.ran("p", "ok", 0.03)
    metrics.ran("p", "timeout", 5)
    metrics.late(0.002)
    metrics.connected("tcp://c:5750", True)
    metrics.reported()
    metrics.reloaded("refused")
    with page_of(metrics, READY) as page:
        found = series(page)
    assert found["dynres_probe_runs_total", (("outcome", "ok"), ("probe", "p"))] == 2
    assert found["dynres_probe_duration_seconds_count", (("probe", "p"),)] == 3
    assert found["dynres_probe_lateness_seconds_count", ()] == 1
    assert found["dynres_agent_connected", (("controller", "tcp://c:5750"),)] == 1
    assert found["dynres_agent_reports_total", ()] == 1
    assert found["dynres_config_reloads_total", (("result", "refused"),)] == 1


def test_the_controller_shows_hosts_pools_and_requests() -> None:
    pool = PoolNumbers("iris", "iris", 100, 7, 91, False, 2)
    blind = PoolNumbers("lic", "lic", None, 0, None, False, 0)
    numbers = ControllerNumbers({"up": 3, "never": 1}, [pool, blind], [])
    metrics = ControllerMetrics(lambda: numbers)
    metrics.report("taken")
    metrics.operation("values", 0.001)
    with page_of(metrics, READY) as page:
        found = series(page)
    iris = (("pool", "iris"), ("resource", "iris"))
    assert found["dynres_hosts", (("state", "up"),)] == 3
    assert found["dynres_pool_free", iris] == 91
    assert found["dynres_pool_waiting", iris] == 2
    assert ("dynres_pool_capacity", (("pool", "lic"), ("resource", "lic"))) not in found
    assert found["dynres_reports_total", (("result", "taken"),)] == 1
    assert found["dynres_operation_duration_seconds_count", (("verb", "values"),)] == 1


def test_healthz_names_what_is_wrong() -> None:
    with page_of(AgentMetrics(list), Health(False, "not registered: tcp://c:5750")) as page:
        assert get(page, "/healthz") == (503, "not registered: tcp://c:5750\n")
        assert get(page, "/nothing")[0] == 404
    with page_of(AgentMetrics(list), READY) as page:
        assert get(page, "/healthz") == (200, "ready\n")


def test_what_a_page_shows_is_gathered_on_the_loops_thread() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def gather() -> list[CurrentValue]:
            assert asyncio.get_running_loop() is loop
            return [CurrentValue("r", 1.0, 0.0)]

        with page_of(AgentMetrics(on_loop(loop, gather)), READY) as page:
            found = await asyncio.to_thread(series, page)
            assert found["dynres_resource_value", (("resource", "r"),)] == 1

    asyncio.run(main())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_a_clear_error(address: str) -> None:
    with pytest.raises(PageError, match="not ADDR:PORT"):
        serve_page(address, AgentMetrics(list).app(), lambda: READY)


def test_a_port_in_use_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(PageError, match=r"already in use; choose another with --metrics"):
            serve_page(address, AgentMetrics(list).app(), lambda: READY)
