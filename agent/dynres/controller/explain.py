"""All about one value on one host, in sentences."""

from collections.abc import Iterator

from dynres.config.covers import Cover
from dynres.config.hosts import fold
from dynres.config.instances import location_text
from dynres.config.model import Resource
from dynres.controller.answers import Answers
from dynres.controller.core import Core
from dynres.controller.distribution import Instance
from dynres.value import format_duration, format_number, format_value
from dynres.wire.views import Explanation, PoolView, ValueView

SHOWN = 10
"""Holders and waiters that are named."""
_ORDERS = {
    "decreasing": "more is freer",
    "increasing": "more is busier",
    "none": "without an order",
}
_MEASURES = {
    "total": "in all",
    "free": "as free",
    "external": "as used by others",
}


def explain(core: Core, answers: Answers, name: str, resource_name: str) -> Explanation:
    """Everything about one value. Raises RefusedError for an unknown host or resource."""
    (host,) = answers.hosts_named((name,))
    resource = answers.resource_named(resource_name)
    value = answers.value(host, resource)
    sentences = [
        _value(host, resource, value),
        *_source(value),
        *_trouble(answers, host, resource, value),
        _host(core, answers, host),
        _resource(resource),
        *_cover(core, host, resource),
        *_instance(core, answers, host, resource),
    ]
    return Explanation(host=host, resource=resource.name, value=value, sentences=tuple(sentences))


def _value(host: str, resource: Resource, value: ValueView | None) -> str:
    where = f"{resource.name} on {host}"
    if value is None:
        return f"{where} is absent: the resource is not mapped to this host."
    unit = f" {value.unit}" if value.unit else ""
    if value.state == "fresh":
        free = " free" if resource.leasable else ""
        shown = format_value(value.value) or '""'
        return f"{where} is {shown}{unit}{free} (fresh)."
    last = "" if value.last is None else f" It was last {format_value(value.last)}{unit}."
    return f"{where} is {value.state}: {value.reason or 'no reason is known'}.{last}"


def _source(value: ValueView | None) -> Iterator[str]:
    if value is None:
        return
    source = value.source
    age = "" if value.age is None else f", {format_duration(round(value.age, 3))} ago"
    if source.kind == "static":
        yield f"It is declared at {source.place}."
    elif source.kind == "pool":
        measured = f", measured by probe {source.probe}" if source.probe else ""
        on = f" on {source.reporter}{age}" if source.reporter else ""
        yield f"It is a shared amount or value, declared at {source.place}{measured}{on}."
    elif source.kind == "override":
        until = f", until {source.until}" if source.until else ""
        yield f"{source.who} has set it at {source.since}{until}: {source.why}."
        if value.reported is not None:
            yield f"What was declared or measured is {format_value(value.reported)}."
    elif source.kind == "on_failure":
        yield f"Probe {source.probe} failed on {source.reporter}{age}; on_failure gives the value."
    elif age:
        yield f"Probe {source.probe} measured it on {source.reporter}{age}."
    else:
        yield f"Probe {source.probe} on {source.reporter} measures it."


def _trouble(
    answers: Answers, host: str, resource: Resource, value: ValueView | None
) -> Iterator[str]:
    """What goes wrong while the value still counts; of one that does not, the reason says it."""
    if value is None or value.source.kind != "probe" or value.state != "fresh":
        return
    trouble = answers.trouble(host, resource, value.source.probe)
    if trouble is not None:
        yield f"The last run gave nothing, and it counts until its ttl: {trouble}."


def _host(core: Core, answers: Answers, host: str) -> str:
    detail = answers.detail(host)
    session = core.registry.session(host)
    if detail.agent is None or session is None:
        closed = f" It is closed: {detail.why_closed}." if detail.closed else ""
        return f"No agent has registered for {host} yet.{closed}"
    agent = f"agent {detail.agent.version} at {session.address}"
    if detail.state == "up":
        running = format_duration(round(detail.agent.uptime))
        text = f"{host} is up: {agent}, running for {running}"
    else:
        silent = format_duration(round(answers.now - session.heard))
        text = f"{host} is {detail.state}: nothing from {agent} for {silent}"
    if detail.closed:
        text += f"; it is closed: {detail.why_closed}"
    if session.refused:
        return f"{text}; it goes on with an older configuration: {session.refused}."
    if session.differs:
        return f"{text}; its files differ in {', '.join(sorted(session.differs))}."
    return f"{text}."


def _resource(resource: Resource) -> str:
    scope = "shared" if resource.shared else "per host"
    unit = f" in {resource.unit}" if resource.unit else ""
    how = "static"
    if resource.interval is not None:
        how = (
            f"measured every {format_duration(resource.interval)} by probe {resource.probe}, "
            f"fresh for {format_duration(resource.ttl or resource.interval)}"
        )
    where = "built in" if resource.builtin else f"declared at {resource.place}"
    order = _ORDERS[resource.order]
    return f"{resource.name} is {resource.type}{unit}, {order}, {scope}, {how}; {where}."


def _cover(core: Core, host: str, resource: Resource) -> Iterator[str]:
    """Which entry covers the host, and what stands above it."""
    if host not in core.distribution.hosts:
        yield f"{host} is `worker: false` in hosts.yaml, so no mapping covers it."
        return
    entry = Cover(resource).entry_for(host)
    if entry is not None and not resource.builtin:
        location = location_text(entry.location)
        if entry.location.rest and not resource.shared:
            location = location.replace("others", "default", 1)
        yield f"The entry at {entry.place} ({location}) covers {host}."
    elif entry is None:
        yield f"No entry of its resourcemap covers {host}."
    own = next(
        (
            value
            for known in core.configuration.hosts
            if known.name == host
            for value in known.values
            if value.resource == resource.name
        ),
        None,
    )
    if own is not None and entry is not None and entry.value is not None:
        yield (
            f"hosts.yaml gives {format_value(own.value)} at {own.place}, which wins over "
            f"{format_value(entry.value)} of {entry.place}."
        )


def _instance(core: Core, answers: Answers, host: str, resource: Resource) -> Iterator[str]:
    instance = core.distribution.instance_for(resource.name, host)
    if instance is None:
        return
    members = core.distribution.members(instance)
    if resource.shared:
        hosts = "1 host" if len(members) == 1 else f"{len(members)} hosts"
        yield f"Instance {instance.id} serves {hosts}: {fold(members)}."
    if resource.leasable:
        pool = answers.pool(resource, instance, holders=True)
        if resource.measures is not None and pool.reported is not None:
            yield f"Its probe has measured {_number(pool.reported)} {_MEASURES[resource.measures]}."
        yield _amounts(pool)
        yield from _holders(pool)
    if resource.shared and instance.dynamic:
        yield _reporter(core, instance)


def _number(amount: object) -> str:
    return "unknown" if amount is None else format_number(float(str(amount)))


def _amounts(pool: PoolView) -> str:
    return (
        f"Of a capacity of {_number(pool.capacity)}, {_number(pool.reserve)} are reserved, "
        f"{_number(pool.leased)} leased and {_number(pool.free)} free."
    )


def _holders(pool: PoolView) -> Iterator[str]:
    """Who holds of a pool, the newest left out where they are many; and who waits for it."""
    holders = pool.holders or ()
    for holder in holders[:SHOWN]:
        ends = f", until {holder.expires}" if holder.expires else ""
        yield (
            f"Job {holder.job} of {holder.owner} holds {holder.amount:f} for {holder.host} since "
            f"{holder.since}{ends} (lease {holder.lease})."
        )
    if len(holders) > SHOWN:
        yield f"{len(holders) - SHOWN} more leases: dynres pools --holders."
    for waiter in pool.waiting[:SHOWN]:
        since = format_duration(round(waiter.for_, 1))
        yield f"Job {waiter.job} of {waiter.owner} waits for {waiter.amount:f}, for {since} now."
    if pool.overcommitted:
        yield "More is held than there is: nothing is granted until it fits."


def _reporter(core: Core, instance: Instance) -> str:
    shared = core.shared.get(instance)
    if shared.reporter is not None:
        trouble = f"; its last run gave nothing: {shared.trouble}" if shared.trouble else ""
        return f"{shared.reporter} measures it for all of them{trouble}."
    reporters = core.distribution.reporters(instance)
    return f"Nobody measures it now: none of {fold(reporters)} has a usable agent."
