"""Reads the report of FlexNet's `lmutil lmstat -a`; pure, so that captured text tests it."""

import re
from dataclasses import dataclass
from typing import Final

_USERS = re.compile(r'\s*Users of "?(?P<feature>[^\s":]+)"?:?\s*(?P<rest>.*)', re.ASCII)
_ISSUED = re.compile(
    r"Total of (?P<total>\d+) licen[sc]es? issued.*?Total of (?P<used>\d+) licen[sc]es? in use",
    re.ASCII | re.IGNORECASE,
)
_DOWN: Final = (
    "cannot connect to license server",
    "cannot find license file",
    "license server machine is down",
    "lmgrd is not running",
    "error getting status",
    "invalid host",
    "vendor daemon is down",
    "is down or not responding",
)


@dataclass(frozen=True, slots=True)
class Feature:
    """What one report says of a feature; None: it has no number, and `why` says so."""

    total: int | None
    used: int | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Features by name, and what servers could not tell."""

    features: dict[str, Feature]
    faults: tuple[str, ...] = ()


def parse_flexnet(text: str) -> Report:
    """Read a report. A feature that several vendors or servers have is the sum of them."""
    found: dict[str, Feature] = {}
    faults: list[str] = []
    for line in text.splitlines():
        match = _USERS.fullmatch(line)
        if match:
            feature = _feature(match["rest"])
            name = match["feature"]
            found[name] = add(found[name], feature) if name in found else feature
        elif any(word in line.lower() for word in _DOWN):
            faults.append(line.strip())
    return Report(found, tuple(dict.fromkeys(faults)))


def _feature(rest: str) -> Feature:
    issued = _ISSUED.search(rest)
    if issued:
        return Feature(int(issued["total"]), int(issued["used"]))
    words = rest.strip().strip("()").strip()
    return Feature(None, None, words or "no number")


def add(one: Feature, other: Feature) -> Feature:
    """Both together: what has no number does not count beside what has one.

    But an uncounted part makes the whole uncounted: nobody is ever refused.
    """
    for part in (one, other):
        if part.why is not None and part.why.lower().startswith("uncounted"):
            return part
    if one.total is None or one.used is None:
        return other
    if other.total is None or other.used is None:
        return one
    return Feature(one.total + other.total, one.used + other.used)
