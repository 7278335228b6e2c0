"""Floating licences of a FlexNet or RLM server: how many there are, used and free."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from dynres.probe import ProbeError
from dynres_probes import tool
from dynres_probes.flexnet import Feature, Report, parse_flexnet
from dynres_probes.rlm import parse_rlm

What = Literal["total", "used", "free"]

_COMMANDS: Final = {
    "flexnet": ("lmutil", "lmstat", "-a"),
    "rlm": ("rlmutil", "rlmstat", "-a"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Which server is asked, how, and for which features."""

    features: tuple[str, ...]
    """As the server spells them."""
    what: tuple[What, ...] = ("total", "used")
    """Gives `FEATURE_total`, `FEATURE_used`, `FEATURE_free`."""
    kind: Literal["flexnet", "rlm"] = "flexnet"
    """Whose report it is."""
    server: str | None = None
    """`27000@lic1`, or a licence file: what `-c` gets; None: what the tool finds by itself."""
    command: tuple[str, ...] = ()
    """In place of `lmutil lmstat -a` or `rlmutil rlmstat -a`, with all its arguments."""
    owners: tuple[str, ...] = ()
    """Users beside root and the agent's who may own the tool: vendors' software often has one."""
    timeout: float = 8.0
    """Seconds that the tool has; less than the probe's own timeout."""

    def __post_init__(self) -> None:
        """Refuse options that can give nothing."""
        if not self.features or not self.what:
            raise ValueError("features and what: at least one of each")
        if not 0 < self.timeout <= 600:
            raise ValueError(
                f"timeout: expected more than 0 s and at most 600 s, got {self.timeout:g}"
            )
        if self.command and self.server:
            raise ValueError("server: the command says which; leave one of them out")


class Licence:
    """`FEATURE_total`, `FEATURE_used` and `FEATURE_free` of each feature."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float | None]:
        """One run. ProbeError when the server gives none of the features, with its words."""
        options = self._options
        command = options.command or (
            *_COMMANDS[options.kind],
            *(("-c", options.server) if options.server else ()),
        )
        try:
            done = tool.run(command, options.timeout, owners=options.owners)
        except FileNotFoundError as error:
            raise ProbeError(f"{error}; name it with its path under command:") from None
        text = f"{done.stdout}\n{done.stderr}"
        flexnet = options.kind == "flexnet"
        report = parse_flexnet(text) if flexnet else parse_rlm(text, date.today())  # noqa: DTZ011
        if not report.features and not report.faults and done.status:
            raise ProbeError(f"{command[0]}: exit status {done.status}: {_last_line(text)}")
        values, remarks = measure(report, options.features, options.what)
        for remark in remarks:
            sys.stderr.write(remark + "\n")
        return values


def measure(
    report: Report, features: Sequence[str], what: Sequence[What]
) -> tuple[dict[str, float | None], list[str]]:
    """The values asked for and what is to be said about those that are None.

    ProbeError when none of the features is served: then the server is down, or the names are wrong.
    """
    fault = f"; {report.faults[0]}" if report.faults else ""
    if not any(feature in report.features for feature in features):
        known = ", ".join(sorted(report.features)[:20]) or "none"
        said = report.faults[0] if report.faults else f"served are: {known}"
        raise ProbeError(f"not served: {', '.join(features)}; {said}")
    values: dict[str, float | None] = {}
    remarks = []
    for name in features:
        feature = report.features.get(name, Feature(None, None, f"not served{fault}"))
        if feature.why is not None:
            remarks.append(f"{name}: {feature.why}")
        values |= {f"{resource_name(name)}_{w}": _number(feature, w) for w in what}
    return values, remarks


def resource_name(feature: str) -> str:
    """A feature's name with `_` for what no resource's name may have."""
    return re.sub(r"[^A-Za-z0-9_]", "_", feature)


def _number(feature: Feature, what: What) -> float | None:
    if feature.total is None or feature.used is None:
        return None
    return float(
        {
            "total": feature.total,
            "used": feature.used,
            "free": max(0, feature.total - feature.used),
        }[what]
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"
