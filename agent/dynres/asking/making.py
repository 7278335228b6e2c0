"""Makes requests about leases and overrides out of what callers say."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, cast

from dynres.asking.errors import names, seconds, text
from dynres.value import Value, read_amount, read_number, split_quantity
from dynres.wire.leasing import LOCAL, Acquire, Need, Reconcile, Release, Renew, Seat

Amount = Decimal | int | float | str
Needs = Mapping[str, Amount] | Sequence[str | Need]
Hosts = Mapping[str, int] | Sequence[str | Seat]
Per = Literal["job", "host", "slot"]


def read_need(text: str) -> Need:
    """Read `R=AMOUNT[unit][/job|/host|/slot]`. Raises ValueError."""
    name, equals, asked = text.partition("=")
    if not (name and equals and asked):
        raise ValueError(f"{text!r}: expected RESOURCE=AMOUNT, as in iris=2 or iris=2/host")
    return _need(name.strip(), asked)


def _need(name: str, asked: str) -> Need:
    quantity, slash, per = asked.partition("/")
    if slash and per not in {"job", "host", "slot"}:
        raise ValueError(f"{name}={asked}: expected /job, /host or /slot, got /{per}")
    try:
        number, unit = split_quantity(quantity)
        read_number(number)
        if not unit:
            read_amount(number)
    except ValueError as error:
        raise ValueError(
            f"{name}={asked}: expected an amount, got {quantity!r}: {error}"
        ) from error
    return Need(name, Decimal(number), cast("Per | None", per or None), unit or None)


def read_needs(needs: Needs) -> tuple[Need, ...]:
    """`{"iris": 2, "scratch": "20GB/host"}`, or texts such as `iris=2`, or Needs."""
    if isinstance(needs, str):
        raise TypeError(f"expected a list of needs or a mapping, got the text {needs!r}")
    if isinstance(needs, Mapping):
        return tuple(_amount(name, amount) for name, amount in needs.items())
    return tuple(n if isinstance(n, Need) else read_need(text("need", n)) for n in needs)


def _amount(name: str, amount: Amount) -> Need:
    text("resource", name)
    if isinstance(amount, str):
        return _need(name, amount)
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int | float):
        raise TypeError(f"{name}: expected an amount, a number or a text, got {amount!r}")
    # A float is what it prints as: 0.1 is 0.1, not its binary neighbour.
    return Need(name, amount if isinstance(amount, Decimal) else Decimal(str(amount)))


def read_seats(hosts: Hosts, slots: int = 1) -> tuple[Seat, ...]:
    """Hosts, each with its slots: `{"h1": 4}`, or `["h1", "h2"]` with `slots` each, or Seats."""
    if isinstance(hosts, str):
        raise TypeError(f"expected a list of hosts, got the text {hosts!r}")
    if isinstance(hosts, Mapping):
        return tuple(_seat(host, count) for host, count in hosts.items())
    return tuple(host if isinstance(host, Seat) else _seat(host, slots) for host in hosts)


def _seat(host: str, slots: int) -> Seat:
    if isinstance(slots, bool) or not isinstance(slots, int):
        raise TypeError(f"slots on {host}: expected a whole number, got {slots!r}")
    return Seat(text("host", host), slots)


def new_request_id() -> str:
    """An id that no other request has: asked again with it, nothing is taken twice."""
    return secrets.token_hex(8)


def acquire_request(
    job: str,
    hosts: Hosts,
    needs: Needs,
    *,
    owner: str = LOCAL,
    slots: int = 1,
    request: str | None = None,
    ttl: float | None = None,
    running: bool = False,
    wait: float | None = None,
) -> Acquire:
    """A request to acquire; one without an id gets one."""
    return Acquire(
        owner=text("owner", owner),
        job=text("job", job),
        needs=read_needs(needs),
        seats=read_seats(hosts, slots),
        request=text("request", request) or new_request_id(),
        ttl=seconds("ttl", ttl),
        running=running,
        wait=seconds("wait", wait),
    )


def release_request(
    job: str | None = None,
    *,
    lease: str | Iterable[str] = (),
    host: str | None = None,
    owner: str | None = LOCAL,
    who: str | None = None,
) -> Release:
    """A request to release by job, lease or host."""
    return Release(
        owner=text("owner", owner),
        job=text("job", job),
        leases=_leases(lease),
        host=text("host", host),
        who=text("who", who),
    )


def _leases(lease: Any) -> tuple[str, ...]:
    if isinstance(lease, str) or not isinstance(lease, Iterable):
        single: str = text("lease", lease)
        return (single,)
    return names(lease)


def renew_request(
    job: str | None = None, *, lease: str | Iterable[str] = (), owner: str = LOCAL
) -> Renew:
    """A request to renew by job or lease."""
    return Renew(owner=text("owner", owner), job=text("job", job), leases=_leases(lease))


def reconcile_request(
    jobs: Iterable[str],
    as_of: float | datetime,
    *,
    owner: str = LOCAL,
    allow_empty: bool = False,
) -> Reconcile:
    """A request to reconcile; `as_of`: when the list was begun, a datetime or seconds since 1970.

    It travels as an age, so that clocks that differ do not matter.
    """
    begun = as_of.timestamp() if isinstance(as_of, datetime) else float(as_of)
    age = time.time() - begun
    if age < 0:
        raise ValueError(f"the list was begun {-age:.0f} s from now: expected a time in the past")
    return Reconcile(owner=text("owner", owner), jobs=names(jobs), age=age, allow_empty=allow_empty)


def override_value(value: Value | int | None) -> Value | None:
    """A value for an override; None: unavailable. Raises TypeError."""
    if not (value is None or isinstance(value, str | int | float)):
        raise TypeError(f"value: expected a number, a text, a boolean or None, got {value!r}")
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
