"""Why a requirement holds on a host, or does not: operand by operand, in sentences."""

from collections.abc import Iterator

from dynres.controller.answers import Answers
from dynres.controller.meaning import (
    Against,
    Between,
    Denied,
    Either,
    Every,
    Known,
    Leaf,
    Mapped,
    Meaning,
)
from dynres.controller.placement import Placement
from dynres.controller.requirement import FALSE, TRUE, UNKNOWN, Requirement
from dynres.value import format_value

_WORDS = {FALSE: "does not hold", UNKNOWN: "is unknown", TRUE: "holds"}


def explain_requirement(
    answers: Answers, placement: Placement, requirement: Requirement, host: str
) -> Iterator[str]:
    """What a requirement comes to on `host`, then each of its conditions and what is there."""
    verdict = placement.verdict(requirement, host, answers.now)
    detail = answers.detail(host)
    yield f"The requirement {requirement.text.strip()} {_WORDS[verdict]} on {host}."
    worker = placement.place(host)
    if verdict == TRUE and (detail.state != "up" or detail.closed or not worker):
        away = "without an agent" if detail.state == "never" else detail.state
        why = "closed" if detail.closed else away if worker else "no worker"
        yield f"Yet {host} is {why}, so it is only shown with --all-hosts."
    for leaf in dict.fromkeys(_leaves(requirement.meaning)):
        here = placement.verdict(Requirement("", leaf), host, answers.now)
        yield f"{_condition(leaf)} {_WORDS[here]}{_because(answers, leaf, host)}."


def _leaves(what: Meaning) -> Iterator[Leaf]:
    match what:
        case Every(parts) | Either(parts):
            for part in parts:
                yield from _leaves(part)
        case Denied(part):
            yield from _leaves(part)
        case Known() | Mapped() | Against() | Between():
            yield what


def _condition(leaf: Leaf) -> str:
    match leaf:
        case Known(truth):
            return "true" if truth else "false"
        case Mapped(resource):
            return f"defined({resource})"
        case Against() | Between():
            return leaf.written


def _because(answers: Answers, leaf: Leaf, host: str) -> str:
    match leaf:
        case Known():
            return ""
        case Mapped(resource) | Against(resource):
            return f": {_there(answers, resource, host)}"
        case Between(left, _, right):
            there = (_there(answers, resource, host) for resource in dict.fromkeys((left, right)))
            return f": {', '.join(there)}"


def _there(answers: Answers, name: str, host: str) -> str:
    """What a resource is on the host, in words."""
    resource = answers.resource_named(name)
    value = answers.value(host, resource)
    if value is None:
        return f"{name} is absent there"
    if value.state == "fresh" and value.value is not None:
        unit = f" {value.unit}" if value.unit else ""
        free = " free" if resource.leasable else ""
        return f"{name} is {format_value(value.value)}{unit}{free}"
    return f"{name} is {value.state}: {value.reason or 'what is free is not known'}"
