"""What `dynres status` shows: the agent, its links, its resources and its probes, as one document.

The shape is described in `local.py`; every field is always there, null when absent.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dynres import __version__
from dynres.config.faults import Fault
from dynres.value import Value, plain_number
from dynres.wire.targets import instance_of, resource_of
from dynres.worker.agent import Agent, clock
from dynres.worker.controllers import ControllerLink
from dynres.worker.outcome import RunSpec

Document = dict[str, Any]


def status(agent: Agent, folder: Path, faults: Sequence[Fault]) -> Document:
    """The whole document; `faults` are those for which the newest files are not in force."""
    now = clock()
    return {
        "host": agent.host,
        "version": __version__,
        "pid": os.getpid(),
        "uptime": now - agent.started,
        "config": {
            "folder": str(folder),
            "state": "refused" if agent.refused else "ok",
            "reason": agent.refused,
            "faults": [fault.as_json() for fault in faults],
        },
        "controllers": [_controller(link) for link in agent.links.values()],
        "resources": list(_resources(agent, now)),
        "probes": [_probe(agent, spec, now) for spec in agent.plan.specs.values()],
    }


def health(agent: Agent) -> tuple[bool, str]:
    """Whether the agent is registered, and in words what is wrong where it is not."""
    wrong = [_wrong(link) for link in agent.links.values() if not link.registered]
    if agent.refused:
        wrong.append(f"configuration refused, the last good one is in force: {agent.refused}")
    registered = sum(link.registered for link in agent.links.values())
    if registered:
        wrong.insert(0, f"registered with {registered} of {len(agent.links)} controllers")
    return registered > 0, "; ".join(wrong or ["no controller is configured"])


def _wrong(link: ControllerLink) -> str:
    if link.refusal is not None:
        return f"{link.endpoint}: refused: {link.refusal.reason}"
    words = {
        "connecting": "not reachable",
        "greeting": "does not answer the hello",
        "silent": "is silent",
    }
    return f"{link.endpoint}: {words.get(link.state, link.state)}"


def _controller(link: ControllerLink) -> Document:
    welcome, refusal = link.welcome, link.refusal
    return {
        "endpoint": link.endpoint,
        "state": link.state,
        "known_as": welcome.host if welcome else None,
        "software": welcome.software if welcome else None,
        "refusal": {"code": refusal.code, "reason": refusal.reason} if refusal else None,
        "problems": link.problems,
        "differs": link.differs,
    }


def _resources(agent: Agent, now: float) -> Iterator[Document]:
    units = {r.name: r.unit for r in agent.declaration.configuration.resources}
    for name, standing in agent.latest.standings(now):
        resource = resource_of(name)
        yield {
            "resource": resource,
            "instance": instance_of(name),
            "value": _plain(standing.value),
            "last": _plain(standing.last),
            "unit": units.get(resource),
            "state": standing.state,
            "reason": standing.reason,
            "age": standing.age,
            "probe": agent.plan.rules[name].probe,
            "on_failure": standing.fallback,
        }


def _probe(agent: Agent, spec: RunSpec, now: float) -> Document:
    name = spec.probe.name
    line, state = agent.timetable.line(name), agent.latest.probe(name)
    last = state.last if state else None
    stream = agent.streams.state(name)
    return {
        "probe": name,
        "kind": "plugin" if spec.probe.plugin else "file" if spec.probe.file else "command",
        "resources": list(spec.resources),
        "interval": line.interval if line else spec.interval,
        "outcome": last.outcome if last else None,
        "reason": last.reason if last else None,
        "duration": last.duration if last else None,
        "age": now - last.started if last else None,
        "next_due": line.due - now if line and line.due is not None else None,
        "failures": state.failures if state else 0,
        "missed_slots": line.missed if line else 0,
        "running": line.running if line else stream is not None and stream.pid is not None,
        "stream": stream
        and {
            "pid": stream.pid,
            "since": None if stream.since is None else now - stream.since,
            "records": stream.records,
            "refused": stream.refusals,
            "starts": stream.starts,
        },
        "waiting": line.waiting if line else False,
        "stderr": state.stderr if state else "",
        "refused": [
            {"name": n, "text": text, "reason": reason}
            for n, text, reason in (state.refused if state else ())
        ],
    }


def _plain(value: Value | None) -> Value | None:
    """Whole numbers without `.0`, as every view shows them."""
    return plain_number(value) if isinstance(value, float) else value
