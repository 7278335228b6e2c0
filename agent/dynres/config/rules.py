"""Decides which settings of one resource go together, before its entries are looked at."""

from dynres.config import schema
from dynres.config.findings import Findings
from dynres.config.scalars import Items, Map
from dynres.value import format_duration

_FEWER = "leave it out"


def order_of(shape: schema.Resource) -> str:
    """The order: as declared, else decreasing for numbers and none for all others."""
    return shape.order or ("decreasing" if shape.type == "numeric" else "none")


def per_of(shape: schema.Resource) -> str:
    """What is charged once: as declared, else a job for a pool and a host for the others."""
    return shape.per or ("job" if {"shared", "global"} & set(shape.flags) else "host")


def leasable(shape: schema.Resource) -> bool:
    """Whether jobs can hold amounts of it, as `Resource.leasable` says."""
    takes = shape.type == "numeric" and order_of(shape) == "decreasing"
    return takes and bool({"shared", "global", "consumable"} & set(shape.flags))


def check_rules(shape: schema.Resource, node: Map, findings: Findings) -> None:
    """Note every combination of settings that means nothing."""
    owner = f"resource {shape.name}"
    _check_type(shape, node, owner, findings)
    _check_flags(shape, node, owner, findings)
    _check_leasing(shape, node, owner, findings)
    if shape.interval is None:
        _check_static(shape, node, owner, findings)
    elif shape.probe is None:
        findings.fault(
            node.place_of("interval"),
            f"{owner}: interval",
            "a probe beside it",
            "none",
            "probe: {command: [/path/to/program]}; without an interval it is static",
        )


def _check_type(shape: schema.Resource, node: Map, owner: str, findings: Findings) -> None:
    if shape.type == "numeric":
        return
    if shape.order not in {None, "none"}:
        place = node.place_of("order")
        findings.fault(place, f"{owner}: order", f"none for a {shape.type}", shape.order, _FEWER)
    if shape.unit is not None:
        place = node.place_of("unit")
        findings.fault(place, f"{owner}: unit", f"none for a {shape.type}", shape.unit, _FEWER)


def _check_flags(shape: schema.Resource, node: Map, owner: str, findings: Findings) -> None:
    flags, what = set(shape.flags), f"{owner}: flags"
    items = node.get("flags")
    places = {
        flag: item.place
        for flag, item in zip(shape.flags, items if isinstance(items, Items) else (), strict=False)
    }
    for index, flag in enumerate(shape.flags):
        if flag in shape.flags[:index]:
            findings.warn(places[flag], f"{what}: {flag} is named twice")
    if "per_host" in flags and flags & {"shared", "global"}:
        other = "shared" if "shared" in flags else "global"
        findings.fault(
            places["per_host"],
            what,
            "per_host (an amount on each host) or " + other + " (one amount for all)",
            "both",
        )
    if flags >= {"shared", "global"}:
        findings.warn(places["shared"], f"{what}: global already means shared over all")
    takes = shape.type == "numeric" and order_of(shape) == "decreasing"
    if "consumable" in flags and not takes:
        findings.fault(
            places["consumable"],
            f"{what}: consumable",
            "type numeric and order decreasing: something that jobs use up",
            f"type {shape.type}, order {order_of(shape)}",
        )
    elif "release" in flags and not leasable(shape):
        numeric = "add shared or consumable, or leave it out" if takes else _FEWER
        findings.fault(
            places["release"],
            f"{what}: release",
            "a resource that jobs can hold (numeric, decreasing, shared or consumable)",
            f"type {shape.type}, order {order_of(shape)}, no shared or consumable"
            if takes
            else f"type {shape.type}, order {order_of(shape)}",
            numeric,
        )


def _check_leasing(shape: schema.Resource, node: Map, owner: str, findings: Findings) -> None:
    if not leasable(shape):
        for key in ("measures", "settle", "per"):
            if getattr(shape, key) is not None:
                findings.fault(
                    node.place_of(key),
                    f"{owner}: {key}",
                    "a resource that jobs can hold (numeric, decreasing, shared or consumable)",
                    "one that they cannot",
                    _FEWER,
                )
        return
    if shape.interval is None:
        return
    if shape.measures is None:
        findings.fault(
            node.place,
            f"{owner}: key measures is missing",
            "measures: total | free | external, as jobs can hold what the probe measures",
            None,
            "total: all there is; free: what is left now; external: what others use",
        )
    if shape.measures == "free" and shape.settle is None:
        findings.fault(
            node.place_of("measures"),
            f"{owner}: key settle is missing",
            "settle: the time until a job's use shows in the measurement",
            None,
            "settle: 30s",
        )
    if shape.settle is not None and shape.measures not in {None, "free"}:
        place = node.place_of("settle")
        findings.fault(place, f"{owner}: settle", "measures: free", str(shape.measures), _FEWER)


def _check_static(shape: schema.Resource, node: Map, owner: str, findings: Findings) -> None:
    for key in ("probe", "ttl", "on_failure", "measures", "settle"):
        if key not in node or (key in {"measures", "settle"} and not leasable(shape)):
            continue
        hint = "add interval: 30s to measure it" if key == "probe" else _FEWER
        expected = "none: without an interval it is static"
        findings.fault(node.place_of(key), f"{owner}: {key}", expected, "one", hint)


def check_ttl(
    shape: schema.Resource, node: Map, timeout: float, findings: Findings
) -> float | None:
    """The ttl in seconds: as declared or the default; None for a static resource."""
    if shape.interval is None:
        return None
    shortest = shape.interval + timeout
    if shape.ttl is None:
        return max(3 * shape.interval, shortest)
    if shape.ttl < shortest:
        findings.fault(
            node.place_of("ttl"),
            f"resource {shape.name}: ttl",
            f"at least interval + timeout = {format_duration(shortest)}",
            format_duration(shape.ttl),
            "a shorter one would call good values stale",
        )
    return shape.ttl
