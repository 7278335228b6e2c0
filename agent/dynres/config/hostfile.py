"""Turns the rows of hosts.yaml into hosts and flat groups, or says what is wrong with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dynres.config.faults import Fault
from dynres.config.model import Host, HostValue, Place


class Term(Protocol):
    """One piece of text of a file (`config.scalars.Scalar` is one)."""

    @property
    def text(self) -> str:
        """The text as written."""

    @property
    def place(self) -> Place:
        """Where it stands."""

    @property
    def plain(self) -> bool:
        """Whether it was written without quotes."""


@dataclass(frozen=True)
class Row:
    """One item of `hosts:`; `name` may hold ranges, each host then has the values."""

    name: Term
    worker: bool = True
    values: tuple[HostValue, ...] = ()


class HostFile(NamedTuple):
    """What hosts.yaml declares; hosts and members under canonical names, in NodeSet's order."""

    hosts: tuple[Host, ...]
    groups: dict[str, tuple[str, ...]]
    faults: list[Fault]
    warnings: list[Fault]


def read_hosts(rows: Sequence[Row], groups: Mapping[Term, Sequence[Term]]) -> HostFile:
    """Expand rows and groups. `groups` maps each group's key to the terms of its list.

    Never raises: what cannot be used is left out and has a fault. Faults: a host twice, a keyword
    as a name, a resource twice for one host, values for a `worker: false` host, an unknown host or
    group in a group, groups in a cycle (each cycle named once).
    """
    raise NotImplementedError
