"""What a verb prints and how it fails: one JSON document or text on stdout, messages on stderr."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from io import TextIOWrapper
from typing import Any, TextIO

FaultShape = Mapping[str, str | None]
"""`place`, `what`, `expected`, `got`, `hint`: what `Fault.as_json` gives."""


class Exit(IntEnum):
    """The exit codes that scripts rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NEVER = 69
    WAIT = 75
    NOT_ALLOWED = 77
    UNREACHABLE = 111
    INTERRUPTED = 130


class CommandError(Exception):
    """A verb that cannot do what was asked: a code for scripts, a message, faults of files."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        exit_code: int = Exit.FAILED,
        faults: Sequence[FaultShape] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.exit_code = exit_code
        self.faults = tuple(faults)


class ReaderGoneError(Exception):
    """Whoever read our output has closed it: there is nobody left to tell."""


def prepare() -> None:
    """Let no text be unprintable: what a locale cannot show is shown as an escape.

    A stream that was closed before the start (`>&-`) is /dev/null: no socket takes its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it; a closed stream is nobody."""
    with suppress(ValueError):
        return stream.isatty()
    return False


@contextmanager
def writing() -> Iterator[None]:
    """Around what writes to stdout. Raises ReaderGoneError, or CommandError on a full disk."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None
    except OSError as error:
        raise CommandError(f"cannot write the output: {error.strerror}") from error


def document(thing: object, *, line: bool = False) -> None:
    """Print one JSON document; indented where a person looks at it, unless it is to be a `line`."""
    out = sys.stdout
    # Escaped where the locale could not carry it, so that it is JSON everywhere.
    utf8 = (out.encoding or "ascii").lower().replace("-", "") == "utf8"
    indent = 2 if is_terminal(out) and not line else None
    with writing():
        print(json.dumps(thing, ensure_ascii=not utf8, allow_nan=False, indent=indent))


def say(text: str = "") -> None:
    """Print a line of the answer on stdout."""
    with writing():
        print(text)


def tell(text: str) -> None:
    """Print a message for a person on stderr."""
    print(text, file=sys.stderr)


def printable(text: str) -> str:
    """The text with control characters as escapes: what a probe says cannot drive a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fault_line(fault: FaultShape) -> str:
    """A fault in the form `file:line:column: what: expected …, got … (hint)`."""
    where = f"{fault['place']}: " if fault.get("place") else ""
    said = [f"{word} {fault[word]}" for word in ("expected", "got") if fault.get(word) is not None]
    detail = f": {', '.join(said)}" if said else ""
    hint = f" ({fault['hint']})" if fault.get("hint") else ""
    return f"{where}{fault['what']}{detail}{hint}"


def failure(error: CommandError, *, as_json: bool) -> int:
    """Tell why a verb failed, in the form asked for; returns the exit code."""
    for fault in error.faults:
        tell(fault_line(fault))
    tell(f"dynres: {error.message}")
    if as_json:
        faults: list[dict[str, Any]] = [dict(fault) for fault in error.faults]
        document({"error": {"code": error.code, "message": error.message, "faults": faults}})
    return int(error.exit_code)


def flush() -> None:
    """Write out what was printed. Raises as `writing` does."""
    with writing():
        sys.stdout.flush()


def abandon() -> None:
    """Let nothing more be written to a stdout that takes nothing, not even at our own end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
