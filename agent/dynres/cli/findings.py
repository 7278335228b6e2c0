"""One line of `dynres doctor`: what was looked at, how it is, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]

_SHOWN: dict[Verdict, str] = {"ok": "ok", "warn": "warn", "fail": "FAIL"}


@dataclass(frozen=True, slots=True)
class Finding:
    """`hint`: what to do; None where there is nothing to do."""

    check: str
    verdict: Verdict
    message: str
    hint: str | None = None

    def lines(self) -> Iterator[str]:
        """For a person."""
        yield f"{_SHOWN[self.verdict]:<5}{self.check:<15}{self.message}"
        if self.hint is not None:
            yield f"{'':<20}-> {self.hint}"

    def as_json(self) -> dict[str, str | None]:
        """For a script."""
        return {
            "check": self.check,
            "verdict": self.verdict,
            "message": self.message,
            "hint": self.hint,
        }


def good(check: str, message: str) -> Finding:
    """It is as it should be."""
    return Finding(check, "ok", message)


def warn(check: str, message: str, hint: str) -> Finding:
    """It may do harm."""
    return Finding(check, "warn", message, hint)


def fail(check: str, message: str, hint: str) -> Finding:
    """It does not work so."""
    return Finding(check, "fail", message, hint)
