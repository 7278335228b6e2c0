"""Reads the report of Reprise's `rlmutil rlmstat -a`; pure, so that captured text tests it."""

import re
from datetime import date
from typing import Final

from dynres_probes.flexnet import Feature, Report, add

_POOL = re.compile(r"\s*license pool status on|.*license pool status on\b", re.IGNORECASE)
_PRODUCT = re.compile(r"\s+(?P<name>[^\s:,]+)\s+v\d\S*(?:\s.*)?", re.ASCII)
_COUNT = re.compile(
    r"\s+count:\s*(?P<count>\w+),.*?inuse:\s*(?P<used>\d+)(?:.*?exp:\s*(?P<expiry>[\w-]+))?.*",
    re.ASCII | re.IGNORECASE,
)
_DATE = re.compile(r"(\d{1,2})-([a-z]{3})-(\d{4})", re.ASCII | re.IGNORECASE)
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_DOWN: Final = (
    "error connecting to",
    "cannot connect to",
    "can't connect to",
    "connection refused",
    "no license server",
    "isv server is down",
    "not running",
)


def parse_rlm(text: str, today: date) -> Report:
    """Read a report. Pools of one product add up; one that has expired by `today` has none."""
    found: dict[str, Feature] = {}
    faults: list[str] = []
    product: str | None = None
    in_pools = False
    for line in text.splitlines():
        count = _COUNT.fullmatch(line)
        if _POOL.match(line):
            in_pools, product = True, None
        elif " status on " in line or "license usage" in line.lower():
            in_pools, product = False, None
        elif any(word in line.lower() for word in _DOWN):
            faults.append(line.strip())
        elif count and product is not None:
            feature = _feature(count, today)
            found[product] = add(found[product], feature) if product in found else feature
            product = None
        elif in_pools and (match := _PRODUCT.fullmatch(line)):
            product = match["name"]
    return Report(found, tuple(dict.fromkeys(faults)))


def _feature(count: re.Match[str], today: date) -> Feature:
    if not count["count"].isdigit():
        return Feature(None, None, count["count"])
    if _expired(count["expiry"] or "", today):
        return Feature(0, 0)
    return Feature(int(count["count"]), int(count["used"]))


def _expired(text: str, today: date) -> bool:
    """Whether `31-dec-2026` is over; `permanent` never is."""
    match = _DATE.fullmatch(text)
    if match is None or match[2].lower() not in _MONTHS:
        return text.lower() == "expired"
    if int(match[3]) == 0:
        return False  # 1-jan-0000: the way to write "permanent" of old files
    month = _MONTHS.index(match[2].lower()) + 1
    try:
        return date(int(match[3]), month, int(match[1])) < today
    except ValueError:
        return False
