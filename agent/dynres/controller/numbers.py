"""What the metrics page shows of the tables."""

from collections import Counter
from collections.abc import Iterator

from dynres.controller.answers import Answers
from dynres.controller.core import Core
from dynres.metrics import ControllerNumbers, CurrentValue, PoolNumbers


def numbers(core: Core, now: float) -> ControllerNumbers:
    """Hosts by state, and pools; values and amounts of single hosts only where asked for."""
    answers = Answers(core, now)
    counts = Counter({"up": 0, "unreachable": 0, "never": 0})
    counts.update(core.registry.state(host, now) for host in core.registry.hosts())
    per_host = core.configuration.controller.per_host_metrics
    return ControllerNumbers(
        hosts=dict(counts),
        pools=list(_pools(core, answers, per_host=per_host)),
        values=list(_values(core, answers)) if per_host else (),
    )


def _pools(core: Core, answers: Answers, *, per_host: bool) -> Iterator[PoolNumbers]:
    for instance in core.distribution.leasable() if per_host else core.distribution.pools():
        resource = core.resources[instance.resource]
        if not resource.leasable:
            continue
        pool = answers.pool(resource, instance)
        yield PoolNumbers(
            resource=pool.resource,
            pool=pool.instance,
            capacity=None if pool.capacity is None else float(pool.capacity),
            leased=float(pool.leased),
            free=None if pool.free is None else float(pool.free),
            overcommitted=pool.overcommitted,
            waiting=len(pool.waiting),
        )


def _values(core: Core, answers: Answers) -> Iterator[CurrentValue]:
    for host in core.registry.hosts():
        shown = answers.values_of(host, core.configuration.resources)
        for resource, value in shown.values.items():
            yield CurrentValue(resource, value.value, value.age, host)
