"""Mounted file systems that answer: a dead NFS or hung FUSE mount is told, not waited for."""

import fnmatch
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from dynres.probe import NOT_HERE, NotHere, ProbeError
from dynres_probes import tool

What = Literal["ok", "bad", "hung", "missing", "mounts", "why"]
State = Literal["ok", "hung", "missing", "broken"]

MOUNTINFO = Path("/proc/self/mountinfo")
MOST: Final = 256
REMOTE: Final = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "afs", "9p"),
    *("glusterfs", "orangefs", "pvfs2", "panfs", "wekafs", "fuse", "fuse.*", "fuseblk"),
)

_asking: dict[str, tool.Child] = {}
"""Mounts of which an answer is still awaited and cannot be broken off: no second one is asked."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which mounts are asked, and what is told."""

    paths: tuple[str, ...] = ()
    """Mount points; empty: every one of a type in `types`."""
    types: tuple[str, ...] = REMOTE
    """Where `paths` is empty; `*` stands for anything."""
    what: tuple[What, ...] = ("ok",)
    timeout: float = 3.0
    """Seconds that all have together to answer; less than the probe's own timeout."""

    def __post_init__(self) -> None:
        """Refuse relative paths and options that can give nothing."""
        for path in self.paths:
            if not path.startswith("/"):
                raise ValueError(f"paths: expected absolute paths, got {path!r}")
        if not self.what:
            raise ValueError("what: at least one")
        if not 0 < self.timeout <= 60:
            raise ValueError(
                f"timeout: expected more than 0 s and at most 60 s, got {self.timeout:g}"
            )


class Mount(NamedTuple):
    """A line of the kernel's table."""

    path: str
    kind: str


class Found(NamedTuple):
    """What became of one mount; `why` is empty where it answered."""

    state: State
    why: str = ""


class Mounts:
    """Values named after `what`; NOT_HERE where no mount is of a type asked for."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float | bool | str | NotHere]:
        """One run, never longer than `timeout` and a moment. ProbeError without a table."""
        options = self._options
        try:
            mounted = parse(MOUNTINFO.read_text("utf-8", "surrogateescape"))
        except OSError as error:
            raise ProbeError(f"{MOUNTINFO}: {error.strerror}") from None
        wanted = [path.rstrip("/") or "/" for path in options.paths]
        wanted = wanted or of_types(mounted, options.types)
        if not wanted:
            return dict.fromkeys(options.what, NOT_HERE)
        if len(wanted) > MOST:
            raise ProbeError(f"{len(wanted)} mounts; at most {MOST}: name them under paths:")
        there = {mount.path for mount in mounted}
        found = {path: Found("missing", "not mounted") for path in wanted if path not in there}
        found |= ask([path for path in wanted if path in there], options.timeout)
        return {what: tell({p: found[p] for p in wanted}, what) for what in options.what}


def parse(text: str) -> list[Mount]:
    """The mounts of a mountinfo text, in order; blanks in paths are told there as `\\040`."""
    mounts = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if dash and len(fields) > 4:
            path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
            mounts.append(Mount(path, right.split(" ")[0]))
    return mounts


def of_types(mounts: Sequence[Mount], types: Sequence[str]) -> list[str]:
    """Mount points of these types, each once."""
    return list(
        dict.fromkeys(
            mount.path
            for mount in mounts
            if any(fnmatch.fnmatchcase(mount.kind, kind) for kind in types)
        )
    )


def tell(found: Mapping[str, Found], what: What) -> float | bool | str:
    """One value about all mounts that were asked."""
    if what == "ok":
        return all(f.state == "ok" for f in found.values())
    if what == "why":
        said = "; ".join(f"{path}: {f.why}" for path, f in found.items() if f.state != "ok")
        plain = "".join(c if c.isprintable() else "?" for c in said)
        return plain.encode("utf-8", "replace")[:1000].decode("utf-8", "ignore")
    if what == "mounts":
        return float(len(found))
    if what == "bad":
        return float(sum(f.state != "ok" for f in found.values()))
    return float(sum(f.state == what for f in found.values()))


def ask(paths: Sequence[str], seconds: float) -> dict[str, Found]:
    """Ask each of these file systems for its size: a question that its server must answer.

    A process asks, not a thread: one that cannot be ended (state D) then holds up neither the
    plugin host nor a second question, which is not asked before the first is over.
    """
    children: dict[str, tool.Child] = {}
    found: dict[str, Found] = {}
    program = _stat()
    for path in [path for path, child in _asking.items() if tool.ended(child)]:
        del _asking[path]
    for path in paths:
        if path in _asking:
            found[path] = Found("hung", "still does not answer")
            continue
        try:
            children[path] = tool.Child(program, ("stat", "-f", "-c", "%b", "--", path), 4096)
        except OSError as error:
            found[path] = Found("broken", f"cannot ask: {error.strerror}")
    tool.wait(list(children.values()), time.monotonic() + seconds)
    for path, child in children.items():
        found[path] = _answer(child, seconds)
    _see_off(children)
    return found


def _answer(child: tool.Child, seconds: float) -> Found:
    if child.status is None:
        return Found("hung", f"did not answer within {seconds:g} s")
    if child.status:
        said = child.err.decode("utf-8", "replace").strip().rpartition(": ")[2]
        return Found("broken", said or f"stat: exit status {child.status}")
    return Found("ok")


def _see_off(children: Mapping[str, tool.Child]) -> None:
    """End those without an answer; remember those that cannot be ended."""
    tool.kill(list(children.values()))
    _asking.update((path, child) for path, child in children.items() if child.status is None)


def _stat() -> str:
    try:
        return tool.find("stat")
    except FileNotFoundError as error:
        raise ProbeError(f"{error} (coreutils)") from None
