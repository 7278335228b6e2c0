"""A cluster with every kind of resource, and random reports, for tests of requirements and feed."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from handmade import Bench, measured, run
from hypothesis import strategies as st

from dynres.config.load import load
from dynres.config.model import Configuration
from dynres.controller.changes import Override, SetOverride, UnsetOverride
from dynres.controller.operators import host_key, pool_key
from dynres.controller.proposal import Instant
from dynres.value import Value

HOSTS = ("h1", "h2", "h3", "h4", "h5")
CASE = Path(__file__).parents[1] / "cases/mixed"
NUMBERS = st.integers(0, 6).map(float) | st.sampled_from([0.1, 1024.0, 2048.5, 1e6])
TEXTS = st.sampled_from(["el9", "el8", "a", "b", ""])
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "space": NUMBERS,
    "swap": NUMBERS,
    "busy": NUMBERS,
    "role": TEXTS,
    "ready": st.booleans(),
    "site": TEXTS,
    "lic": NUMBERS,
    "up": st.booleans(),
}

Action = Callable[["Mixed"], object]


@cache
def mixed_configuration() -> Configuration:
    """The configuration of tests/cases/mixed."""
    return load(CASE, "controller").configuration


class Mixed(Bench):
    """A bench with these resources, whose agents register when they are first heard of."""

    def __init__(self) -> None:
        super().__init__(mixed_configuration())
        self._seq: dict[str, int] = {}

    def say(self, host: str, resource: str, value: Value | None, age: float) -> None:
        """A host reports one value."""
        if host not in self._seq:
            self.hello(host.encode(), host)
            self._seq[host] = 0
        full = self._seq[host] == 0
        self._seq[host] += 1
        instance = None
        if self.core.resources[resource].shared:
            found = self.core.distribution.instance_for(resource, host)
            instance = "none" if found is None else found.id
        told = measured(resource, value, age, instance=instance)
        self.report(host.encode(), self._seq[host], told, full=full)

    def again(self, host: str, probe: str) -> None:
        """A probe has run again, and has measured the same."""
        if host in self._seq:
            self._seq[host] += 1
            self.report(host.encode(), self._seq[host], runs=[run(probe)])

    def end(self, host: str) -> None:
        """An agent ends on purpose, and may come back."""
        if self._seq.pop(host, None) is not None:
            self.bye(host.encode())

    def dispute(self, host: str, resource: str) -> None:
        """An agent comes whose files define a resource in another way."""
        known = {r.name: self.core._digests[r.name] for r in self.configuration.resources}
        self.hello(host.encode(), host, definitions=known | {resource: "another"})
        self._seq[host] = 0

    def override(self, resource: str, where: str, value: Value | None, *, ends: bool) -> None:
        """An operator sets a value on a host or for an instance, or takes it back."""
        shared = self.core.resources[resource].shared
        key = pool_key(resource, where) if shared else host_key(resource, where)
        hosts, instance = ((), where) if shared else ((where,), None)
        known = key in self.core.operators.overrides
        if ends and not known:
            return
        given = Override(resource, value, "a test", "root", 0.0, hosts, instance)
        change = UnsetOverride(key, resource, "root", hosts, instance)
        at = Instant(self.now, 0.0)
        self.core.operators.apply(change if ends else SetOverride(key, given), at)
        self.core.overrule()
        if shared:
            self.core.shared.changed.add((resource, where))


def _said(host: str, told: tuple[str, Value | None], age: float) -> Action:
    return lambda mixed: mixed.say(host, *told, age)


_HOST = st.sampled_from(HOSTS)
_TOLD = st.sampled_from(sorted(VALUES)).flatmap(
    lambda name: st.tuples(st.just(name), st.none() | VALUES[name] | VALUES[name] | VALUES[name])
)
ACTIONS: st.SearchStrategy[Action] = (
    st.builds(_said, _HOST, _TOLD, st.sampled_from([0.0, 0.0, 5.0, 80.0]))
    | st.builds(_said, _HOST, _TOLD, st.just(0.0))
    | st.builds(
        lambda host, probe: lambda mixed: mixed.again(host, probe),
        _HOST,
        st.sampled_from(sorted(VALUES)),
    )
    | st.sampled_from([0.3, 4.0, 20.0, 100.0]).map(
        lambda s: lambda mixed: mixed.wait(s, *HOST_PEERS[:3])
    )
    | _HOST.map(lambda host: lambda mixed: mixed.end(host))
    | st.builds(
        lambda host, name: lambda mixed: mixed.dispute(host, name),
        _HOST,
        st.sampled_from(["os", "space", "lic", "site"]),
    )
)
OVERRIDES: st.SearchStrategy[tuple[str, str, Value | None]] = st.one_of(
    st.tuples(st.sampled_from(["space", "quota"]), st.sampled_from(["h1", "h4"]), NUMBERS),
    st.tuples(st.just("role"), _HOST, st.none() | TEXTS),
    st.tuples(st.just("iris"), st.sampled_from(["big", "small"]), st.none() | NUMBERS),
    st.tuples(st.just("lic"), st.just("lic"), st.none() | NUMBERS),
)
ACTIONS |= st.builds(
    lambda told, ends: lambda mixed: mixed.override(*told, ends=ends), OVERRIDES, st.booleans()
)
HOST_PEERS = tuple(host.encode() for host in HOSTS)
