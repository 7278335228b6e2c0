"""Requirements over columns equal what a plain reading of the rules says, host by host."""

from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mixed import ACTIONS, VALUES, Action, Mixed, mixed_configuration

from dynres.controller.answers import Answers
from dynres.controller.condition import (
    All,
    Any,
    Compare,
    Condition,
    Defined,
    Enough,
    Name,
    Not,
    Number,
    Operand,
    RequirementError,
    Text,
    Truth,
    written,
)
from dynres.controller.placement import Placement
from dynres.controller.requirement import compile_requirement
from dynres.value import Value, convert

COMPARE = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
NUMERIC = ("quota", "iris", "space", "swap", "busy", "lic")
BOOLEAN = ("bigmem", "ready", "up")
STRING = ("os", "role", "site")


class Plain:
    """The rules of requirements read one host at a time, on what the views show of it."""

    def __init__(self, mixed: Mixed, host: str) -> None:
        self._answers = Answers(mixed.core, mixed.now)
        self._resources = mixed.core.resources
        self._host = host

    def decide(self, condition: Condition) -> bool | None:
        """True, False, or None for unknown."""
        match condition:
            case All(parts):
                found = [self.decide(part) for part in parts]
                return False if False in found else None if None in found else True
            case Any(parts):
                found = [self.decide(part) for part in parts]
                return True if True in found else None if None in found else False
            case Not(part):
                inner = self.decide(part)
                return None if inner is None else not inner
            case Defined(name):
                return self._value(name) is not None
            case Name():
                return self._compared(condition, "==", Truth(True))
            case Truth(truth):
                return truth
            case Enough(name, number):
                order = self._resources[name.name].order
                return self._compared(name, ">=" if order == "decreasing" else "<=", number)
            case Compare(left, operator, right):
                return self._compared(left, operator, right)

    def _value(self, name: Name) -> tuple[Value | None] | None:
        """None where it is absent; a value of None where it is not known."""
        view = self._answers.value(self._host, self._resources[name.name])
        return None if view is None else (view.value,)

    def _compared(self, left: Operand, operator: str, right: Operand) -> bool | None:
        sides = []
        for side, other in ((left, right), (right, left)):
            if not isinstance(side, Name):
                sides.append(self._constant(side, other))
                continue
            known = self._value(side)
            if known is None:
                return False
            sides.append(known[0])
        if None in sides:
            other_absent = [
                side
                for side in (left, right)
                if isinstance(side, Name) and self._value(side) is None
            ]
            return False if other_absent else None
        return bool(COMPARE[operator](sides[0], sides[1]))

    def _constant(self, part: Operand, other: Operand) -> Value:
        match part:
            case Number(number, unit):
                to = self._resources[other.name].unit if isinstance(other, Name) else None
                return float(convert(number, unit, to, rounding="up") if unit and to else number)
            case Text(text):
                return text
            case Truth(truth):
                return truth
            case Name():
                raise AssertionError


def _compare(names: tuple[str, ...], constants: st.SearchStrategy[Operand], *operators: str):
    operand = st.builds(Name, st.sampled_from(names))
    pairs = st.tuples(operand, operand | constants).flatmap(
        lambda pair: st.sampled_from([pair, pair[::-1]])
    )
    return st.builds(
        lambda pair, op: Compare(pair[0], op, pair[1]), pairs, st.sampled_from(operators)
    )


NUMBER = st.builds(
    Number,
    st.sampled_from([0, 1, 2, 3, 5, 9, 50, 97, 1024]).map(Decimal),
)
LEAVES = (
    _compare(NUMERIC, NUMBER, *COMPARE)
    | _compare(BOOLEAN, st.builds(Truth, st.booleans()), "==", "!=")
    | _compare(STRING, st.builds(Text, st.sampled_from(["el9", "el8", "a", "", "zzz"])), "==", "!=")
    | st.builds(Name, st.sampled_from(BOOLEAN))
    | st.builds(Truth, st.booleans())
    | st.builds(Defined, st.builds(Name, st.sampled_from(NUMERIC + BOOLEAN + STRING)))
    | st.builds(Enough, st.builds(Name, st.sampled_from(NUMERIC)), NUMBER)
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(All, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Any, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(ACTIONS, max_size=25), st.lists(CONDITIONS, min_size=1, max_size=8))
def test_columns_decide_as_the_rules_do_on_each_host(
    actions: list[Action], conditions: list[Condition]
) -> None:
    mixed = Mixed()
    for action in actions:
        action(mixed)
    placement = Placement(mixed.core)
    hosts = sorted(mixed.core.registry.hosts())
    for condition in conditions:
        text = written(condition)
        try:
            requirement = compile_requirement(text, mixed.core.resources)
        except RequirementError as error:
            # Only units may stand in the way of these.
            assert "converted" in error.what
            continue
        found = placement.find(requirement, mixed.now, all_hosts=True)
        expected = {host: Plain(mixed, host).decide(condition) for host in hosts}
        assert found.hosts == [h for h in hosts if expected[h] is True], text
        assert found.unknown == [h for h in hosts if expected[h] is None], text
        for host in hosts:
            alone = placement.verdict(requirement, host, mixed.now)
            assert {0: False, 1: None, 2: True}[alone] is expected[host]


def test_the_cluster_of_these_tests_has_every_kind_of_resource() -> None:
    assert {r.name for r in mixed_configuration().resources if not r.builtin and r.dynamic} == set(
        VALUES
    )
