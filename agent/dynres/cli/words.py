"""How values, ages, states and sources read: the words that every view shares."""

from dynres.value import Value, format_duration, format_number, format_value
from dynres.wire.views import Source, ValueView

NONE = "-"
STATE_STYLES = {
    "fresh": "green",
    "stale": "yellow",
    "unavailable": "red",
    "up": "green",
    "unreachable": "red",
    "never": "yellow",
}


def value_text(value: Value | None) -> str:
    """A value without loss; `-` for none. A string that reads as none or is empty is quoted."""
    if isinstance(value, str) and value in {"", NONE}:
        return f'"{value}"'
    return format_value(value)


def age_text(seconds: float | None) -> str:
    """An age as a duration, as fine as a person wants it; `-` for what has none."""
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{format_number(round(max(seconds, 0.0), 1))}s"
    if seconds >= 86400:
        return format_duration(float(round(seconds / 3600) * 3600))
    if seconds >= 3600:
        return format_duration(float(round(seconds / 60) * 60))
    return format_duration(float(round(seconds)))


def run_time_text(seconds: float | None) -> str:
    """How long something took: `3.2ms`, `1.25s`."""
    if seconds is None:
        return NONE
    return format_duration(round(seconds, 2 if seconds >= 1 else 4)) if seconds else "0s"


def source_text(source: Source, host: str | None = None) -> str:
    """Where a value comes from: `static FILE:LINE:COLUMN`, `probe NAME on HOST`, …

    Where a view is narrow, `host` is the one that it is about, which need not be named again.
    """
    if source.kind in {"probe", "on_failure"}:
        words = [source.kind.replace("probe", ""), "probe", source.probe or "?"]
        there = source.reporter and source.reporter != host
        return " ".join(filter(None, words)) + (f" on {source.reporter}" if there else "")
    if source.kind == "override" and source.who:
        return f"override by {source.who}: {source.why}"
    return f"{source.kind} {source.place}" if source.place else source.kind


def reason_text(view: ValueView) -> str:
    """Why there is no fresh value; `-` where there is one."""
    return view.reason or NONE
