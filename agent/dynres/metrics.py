"""Every metric name of dynres, and what its page shows of the tables.

Values are read when the page is asked for: a resource that is gone leaves no series, and nothing
is kept twice. The page runs in threads of its own (`page.py`); what it shows is gathered on the
loop's thread (`on_loop`), so that the tables need no locks.
"""

import asyncio
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

# Its parts, never the package: the agent does without that (worker/lean.py).
from prometheus_client.metrics import Counter, Gauge, Histogram
from prometheus_client.metrics_core import (
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

from dynres import __version__, exposition
from dynres.exposition import Body, Metrics
from dynres.value import Value

DURATIONS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LATENESS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
OPERATIONS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
SCRAPE_TIMEOUT: Final = 10.0
T = TypeVar("T")


class CurrentValue(NamedTuple):
    """One resource as a page shows it; `value` None while it is not fresh, `age` in seconds."""

    resource: str
    value: Value | None
    age: float | None
    host: str | None = None
    pool: str | None = None
    """The instance, of a shared resource that this agent measures for others."""


class PoolNumbers(NamedTuple):
    """One pool as a page shows it; None: not known now, so no series."""

    resource: str
    pool: str
    capacity: float | None
    leased: float
    free: float | None
    overcommitted: bool
    waiting: int


class ControllerNumbers(NamedTuple):
    """What the controller's page shows of its tables."""

    hosts: dict[str, int]
    pools: Iterable[PoolNumbers]
    values: Iterable[CurrentValue]


def on_loop(loop: asyncio.AbstractEventLoop, gather: Callable[[], T]) -> Callable[[], T]:
    """`gather` made callable from another thread: it runs on the loop's thread."""

    async def gathered() -> T:
        return gather()

    def call() -> T:
        return asyncio.run_coroutine_threadsafe(gathered(), loop).result(SCRAPE_TIMEOUT)

    return call


def _value_families(values: Iterable[CurrentValue]) -> Iterator[Metric]:
    numbers = GaugeMetricFamily(
        "dynres_resource_value", "Fresh value of a numeric or boolean resource."
    )
    texts = InfoMetricFamily("dynres_resource", "Fresh value of a string resource, as a label.")
    ages = GaugeMetricFamily("dynres_resource_age_seconds", "Time since the value was measured.")
    for current in values:
        labels = {"host": current.host, "resource": current.resource, "pool": current.pool}
        key = {name: text for name, text in labels.items() if text is not None}
        if isinstance(current.value, str):
            texts.add_sample("dynres_resource_info", {**key, "value": current.value}, 1.0)
        elif current.value is not None:
            numbers.add_sample(numbers.name, key, float(current.value))
        if current.age is not None:
            ages.add_sample(ages.name, key, current.age)
    yield from (numbers, texts, ages)


class _Values(Collector):
    """The agent's own values."""

    def __init__(self, snapshot: Callable[[], Iterable[CurrentValue]]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from _value_families(self._snapshot())


class _Span:
    """How long the runs of one probe took."""

    __slots__ = ("counts", "created", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATIONS) + 1)
        """Runs by the first bound that is not below their duration; the last: above all."""
        self.total = 0.0
        self.created = time.time()


class _Durations(Collector):
    """A histogram for each probe.

    The library's own is an object and a lock for each bucket: 4 KB a probe instead of 0.3.
    """

    def __init__(self) -> None:
        self._spans: dict[str, _Span] = {}

    def observe(self, probe: str, seconds: float) -> None:
        """A run took that long."""
        span = self._spans.get(probe)
        if span is None:
            span = self._spans[probe] = _Span()
        span.counts[bisect_left(DURATIONS, seconds)] += 1
        span.total += seconds

    def forget(self, probe: str) -> None:
        """The probe's series end."""
        self._spans.pop(probe, None)

    def describe(self) -> Iterator[Metric]:
        """The family without series: by its name it can be asked for."""
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        """The family; called by the page's threads."""
        family = self._family()
        as_text: Callable[[float], str] = floatToGoString
        bounds = list(map(as_text, (*DURATIONS, math.inf)))
        for probe, span in list(self._spans.items()):
            sums = accumulate(list(span.counts))
            buckets = list(zip(bounds, map(float, sums), strict=True))
            family.add_metric([probe], buckets, span.total)
            family.add_sample(f"{family.name}_created", {"probe": probe}, span.created)
        yield family

    @staticmethod
    def _family() -> HistogramMetricFamily:
        return HistogramMetricFamily(
            "dynres_probe_duration_seconds", "How long a probe run took.", labels=["probe"]
        )


class AgentMetrics:
    """What an agent counts. `snapshot` gives its current values and may be called by any thread."""

    def __init__(self, snapshot: Callable[[], Iterable[CurrentValue]]) -> None:
        self.registry = CollectorRegistry()
        _common(self.registry)
        self.registry.register(_Values(snapshot))
        self._runs = Counter(
            "dynres_probe_runs",
            "Probe runs by outcome.",
            ["probe", "outcome"],
            registry=self.registry,
        )
        self._durations = _Durations()
        self.registry.register(self._durations)
        self._lateness = Histogram(
            "dynres_probe_lateness_seconds",
            "How long after it was due a probe run started.",
            buckets=LATENESS,
            registry=self.registry,
        )
        self._connected = Gauge(
            "dynres_agent_connected",
            "1 while the controller has this agent registered.",
            ["controller"],
            registry=self.registry,
        )
        self._reports = Counter(
            "dynres_agent_reports", "Reports sent to controllers.", registry=self.registry
        )
        self._reloads = _reload_counter(self.registry)
        self._outcomes: dict[str, dict[str, Counter]] = {}
        """Probe -> outcome -> its series."""

    def app(self) -> Metrics:
        """The metrics page."""
        return _app(self.registry)

    def ran(self, probe: str, outcome: str, duration: float) -> None:
        """A run ended; `duration` in seconds."""
        outcomes = self._outcomes.setdefault(probe, {})
        if outcome not in outcomes:
            outcomes[outcome] = self._runs.labels(probe, outcome)
        outcomes[outcome].inc()
        self._durations.observe(probe, duration)

    def late(self, seconds: float) -> None:
        """A run started that long after it was due."""
        self._lateness.observe(seconds)

    def keep_only(self, probes: set[str]) -> None:
        """Drop the series of every probe that is not among `probes`: a reload removed it."""
        for probe in self._outcomes.keys() - probes:
            for outcome in self._outcomes.pop(probe):
                self._runs.remove(probe, outcome)
            self._durations.forget(probe)

    def connected(self, controller: str, registered: bool) -> None:
        """Whether the controller at that endpoint has this agent registered."""
        self._connected.labels(controller).set(1 if registered else 0)

    def disconnected(self, controller: str) -> None:
        """The agent has no link to that controller any more: its series ends."""
        self._connected.remove(controller)

    def reported(self) -> None:
        """A report was handed to a link."""
        self._reports.inc()

    def reloaded(self, result: str) -> None:
        """A reload ended: `ok` or `refused`."""
        self._reloads.labels(result).inc()


class _Tables(Collector):
    """The controller's tables."""

    def __init__(self, snapshot: Callable[[], ControllerNumbers]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        numbers = self._snapshot()
        hosts = GaugeMetricFamily("dynres_hosts", "Hosts by state.", labels=["state"])
        for state, count in numbers.hosts.items():
            hosts.add_metric([state], count)
        yield hosts
        yield from _pool_families(numbers.pools)
        yield from _value_families(numbers.values)


def _pool_families(pools: Iterable[PoolNumbers]) -> Iterator[Metric]:
    texts = {
        "capacity": "Capacity of a pool.",
        "leased": "Amount of a pool that jobs hold.",
        "free": "Amount of a pool that can be granted now.",
        "overcommitted": "1 while more is held than the capacity.",
        "waiting": "Requests that wait for a pool.",
    }
    families = {
        name: GaugeMetricFamily(f"dynres_pool_{name}", text, labels=["resource", "pool"])
        for name, text in texts.items()
    }
    for pool in pools:
        for name, family in families.items():
            number = getattr(pool, name)
            if number is not None:
                family.add_metric([pool.resource, pool.pool], float(number))
    yield from families.values()


class ControllerMetrics:
    """What a controller counts. `snapshot` shows its tables and may be called by any thread."""

    def __init__(self, snapshot: Callable[[], ControllerNumbers]) -> None:
        self.registry = CollectorRegistry()
        _common(self.registry)
        self.registry.register(_Tables(snapshot))
        self._reports = Counter(
            "dynres_reports",
            "Reports of agents by what became of them.",
            ["result"],
            registry=self.registry,
        )
        self._operations = Histogram(
            "dynres_operation_duration_seconds",
            "How long answering a client took.",
            ["verb"],
            buckets=OPERATIONS,
            registry=self.registry,
        )
        # Finding a series by its labels costs more than adding to it.
        self._operation: dict[str, Histogram] = {}
        self._leased: dict[tuple[str, str], Counter] = {}
        self._leases = Counter(
            "dynres_lease_operations",
            "Requests about leases and overrides by what was answered.",
            ["verb", "answer"],
            registry=self.registry,
        )
        self._reloads = _reload_counter(self.registry)

    def app(self) -> Metrics:
        """The metrics page."""
        return _app(self.registry)

    def leased(self, verb: str, answer: str) -> None:
        """A request about leases or overrides was answered."""
        known = self._leased.get((verb, answer))
        if known is None:
            known = self._leased[verb, answer] = self._leases.labels(verb, answer)
        known.inc()

    def report(self, result: str) -> None:
        """A report came: `taken`, or why not."""
        self._reports.labels(result).inc()

    def operation(self, verb: str, seconds: float) -> None:
        """A client's request was answered."""
        known = self._operation.get(verb)
        if known is None:
            known = self._operation[verb] = self._operations.labels(verb)
        known.observe(seconds)

    def reloaded(self, result: str) -> None:
        """A reload ended: `ok` or `refused`."""
        self._reloads.labels(result).inc()


def _app(registry: CollectorRegistry) -> Metrics:
    def of(names: list[str]) -> Collector:
        restricted: Collector = registry.restricted_registry(names) if names else registry
        return restricted

    def openmetrics(names: list[str]) -> tuple[bytes, str]:
        write: Callable[[Collector], bytes] = generate_latest
        return write(of(names)), CONTENT_TYPE_LATEST

    def page(query: str, headers: Mapping[str, str]) -> Body:
        return exposition.answer(query, headers, lambda names: of(names).collect(), openmetrics)

    return page


def _common(registry: CollectorRegistry) -> None:
    ProcessCollector(namespace="dynres", registry=registry)
    build = Gauge("dynres_build_info", "The version that runs.", ["version"], registry=registry)
    build.labels(__version__).set(1)


def _reload_counter(registry: CollectorRegistry) -> Counter:
    counter = Counter(
        "dynres_config_reloads", "Reloads of the configuration.", ["result"], registry=registry
    )
    for result in ("ok", "refused"):
        counter.labels(result)
    return counter
