"""The contract between dynres and a Python probe plugin.

A plugin is a class with `__init__(options)` and `read()`, found through the entry-point group
`dynres.probes`. Plugins run in a plugin host, outside the agent's process: a plugin may print,
leak, block or hold the interpreter lock, and costs only itself its run.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, Protocol

from dynres.value import Value

__all__ = ["NOT_HERE", "NotHere", "Probe", "ProbeError", "Reading"]


class NotHere(Enum):
    """The type of `NOT_HERE`."""

    NOT_HERE = "not applicable on this host"


NOT_HERE: Final[Literal[NotHere.NOT_HERE]] = NotHere.NOT_HERE
"""Not applicable on this host; asked again after a reload and every `recheck` (10 m)."""

Reading = Mapping[str, Value | NotHere | tuple[None, str] | None]
"""One run: resource name -> value; `None` says that the value is unavailable now, `(None, "why")`
says also why, in words that people are shown.
"""


class ProbeError(Exception):
    """This run has failed; the text says why, in words that a person can act on."""


class Probe(Protocol):
    """What a plugin provides.

    `__init__(self, options: T)` takes one frozen options type of the plugin's own, a dataclass;
    the class without options takes none. It is made from the probe's `options:` mapping, and
    what does not fit is reported with its place in the YAML file.
    """

    def read(self) -> Reading:
        """One run. Raises ProbeError("why") when it cannot give a value."""
        ...
