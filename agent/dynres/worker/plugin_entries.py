"""Which plugins are installed: reads `entry_points.txt` without what `importlib.metadata` costs.

That module brings the `email` package and 3 MB. Where something is on the path that is no plain
folder (a zip file, an egg), it is used all the same.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # for the size of the plugin host
if TYPE_CHECKING:
    from typing import Final

GROUP: Final = "dynres.probes"


class EntryPoint:
    """A name, the object that it stands for (`package.module:Class`), who provides it."""

    def __init__(self, name: str, value: str, distribution: str) -> None:
        self.name = name
        self.value = value
        self.distribution = distribution
        self.module, _, self.attribute = value.partition(":")


def entry_points() -> list[EntryPoint]:
    """Every plugin on the path; of a distribution that is there twice, the first."""
    if any(folder.endswith(".egg") or os.path.isfile(folder) for folder in sys.path):
        return _by_importlib()
    found: dict[str, list[EntryPoint]] = {}
    for folder in sys.path:
        for name in _listed(folder or "."):
            stem, _, kind = name.rpartition(".")
            if kind in {"dist-info", "egg-info"}:
                distribution = _canonical(stem)
                if distribution not in found:
                    text = _read(f"{folder or '.'}/{name}/entry_points.txt")
                    found[distribution] = parse(text, distribution)
    return [point for points in found.values() for point in points]


def parse(text: str, distribution: str) -> list[EntryPoint]:
    """What stands under `[dynres.probes]`; extras (`[x]`) after an object change nothing."""
    points = []
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group == GROUP and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            points.append(EntryPoint(name.strip(), _bare(value), distribution))
    return points


def _bare(value: str) -> str:
    return value.partition("[")[0].replace(" ", "")


def _canonical(stem: str) -> str:
    """The name of a distribution, out of its folder's `My_Dist-1.0`, as names are compared."""
    name = stem.partition("-")[0].lower()
    for mark in "_.":
        name = name.replace(mark, "-")
    return name


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _by_importlib() -> list[EntryPoint]:
    from importlib import metadata

    return [
        EntryPoint(p.name, _bare(p.value), p.dist.name if p.dist is not None else "")
        for p in metadata.entry_points(group=GROUP)
    ]
