"""How many files match a pattern, or how many processes do."""

import fnmatch
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynres.probe import ProbeError

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Options:
    """What is counted: exactly one of `files` and `processes`."""

    files: str | None = None
    """An absolute path with `*`, `?`, `[…]` and `**` (any folders); links are not followed."""
    older_than: float | None = None
    """Only files that were changed longer ago, in seconds."""
    processes: str | None = None
    """A regular expression that the name must be as a whole, or occur in the command line."""
    command_line: bool = False
    """Look at the whole command line, not at the name."""
    user: str | None = None
    """Only processes of this user (a name or a number)."""
    limit: int = 100_000
    """Most files or processes that are looked at; more is a failure."""

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        if (self.files is None) == (self.processes is None):
            raise ValueError("expected files or processes, one of them")
        if self.files is not None and not self.files.startswith("/"):
            raise ValueError(f"files: expected an absolute path, got {self.files!r}")
        if self.files is not None and (self.user or self.command_line):
            raise ValueError("user and command_line are for processes")
        if self.processes is not None and self.older_than is not None:
            raise ValueError("older_than is for files")
        if self.limit < 1:
            raise ValueError(f"limit: expected 1 or more, got {self.limit}")
        try:
            re.compile(self.processes or "")
        except re.error as error:
            raise ValueError(f"processes: no regular expression: {error}") from None


class Count:
    """One value, `count`."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> dict[str, float]:
        """One run. ProbeError when there is more to look at than `limit`, or no such user."""
        options = self._options
        look = Look(options.limit)
        if options.files is not None:
            parts = [part for part in options.files.split("/") if part]
            before = None if options.older_than is None else time.time() - options.older_than
            found = sum(_older(path, before) for path in look.matching("/", parts))
        else:
            uid = None if options.user is None else _uid(options.user)
            found = sum(self._counts(pid, uid) for pid in look.pids())
        return {"count": float(found)}

    def _counts(self, pid: str, uid: int | None) -> bool:
        options = self._options
        try:
            if uid is not None and (PROC / pid).stat().st_uid != uid:
                return False
            line = (PROC / pid / ("cmdline" if options.command_line else "comm")).read_bytes()
        except OSError:
            return False  # it has ended
        return matches(line, options)


def matches(line: bytes, options: Options) -> bool:
    """Whether a process's name (`comm`) or command line (`cmdline`) is one that counts."""
    text = line.rstrip(b"\n\0").replace(b"\0", b" ").decode("utf-8", "replace")
    pattern = options.processes or ""
    if options.command_line:
        return bool(text) and re.search(pattern, text) is not None
    return re.fullmatch(pattern, text) is not None


class Look:
    """Walks folders and processes, one entry at a time, and not without end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen = 0

    def matching(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        """Paths below `folder` that match the parts of a pattern; unreadable folders have none."""
        first, rest = parts[0], parts[1:]
        if first == "**":
            for here in self._below(folder):
                yield from self.matching(here, rest or ["*"])
            return
        if not any(char in first for char in "*?["):
            path = f"{folder.rstrip('/')}/{first}"
            self._count()
            if rest:
                yield from self.matching(path, rest)
            elif os.path.lexists(path):
                yield path
            return
        fits = re.compile(fnmatch.translate(first)).match
        for entry in self._entries(folder):
            if not fits(entry.name) or (entry.name[0] == "." and first[0] != "."):
                continue
            if not rest:
                yield entry.path
            elif entry.is_dir(follow_symlinks=False):
                yield from self.matching(entry.path, rest)

    def _below(self, folder: str) -> Iterator[str]:
        """The folder and all below it; hidden ones and links to folders are left out."""
        todo = [folder]
        while todo:
            here = todo.pop()
            yield here
            todo += [
                entry.path
                for entry in self._entries(here)
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)
            ]

    def pids(self) -> Iterator[str]:
        """Every process."""
        return (entry.name for entry in self._entries(str(PROC)) if entry.name.isdigit())

    def _entries(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        try:
            listing = os.scandir(folder)
        except OSError:
            return
        with listing:
            for entry in listing:
                self._count()
                yield entry

    def _count(self) -> None:
        self._seen += 1
        if self._seen > self._limit:
            raise ProbeError(f"more than {self._limit} entries to look at: see `limit`")


def _older(path: str, before: float | None) -> bool:
    if before is None:
        return True
    try:
        return os.lstat(path).st_mtime < before
    except OSError:
        return False  # gone since


def _uid(user: str) -> int:
    import pwd

    if user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ProbeError(f"no such user: {user}") from None
