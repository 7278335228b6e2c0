"""Decides whether the files of a probe can be changed by somebody who must not.

The executable, every argument that names a regular file by absolute path, and every folder on
the way to them (links followed) must belong to a trusted user and be writable by nobody else.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_LINKS = 40
"""Most symbolic links on one path, as in the kernel."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UnsafeFile(Exception):  # noqa: N818  (a verdict, not a mishap)
    """Somebody else can change what would run; the message names path, owner and mode."""


def check(path: str, argv: Sequence[str], trusted: Collection[int]) -> None:
    """Raise UnsafeFile unless `path` and the files among `argv[1:]` are safe to run.

    `trusted`: user ids that may own them; root always may. What does not exist or cannot be
    reached is none of this check's business: the start says so itself. May hang as `stat` may.
    """
    owners = {0, *trusted}
    seen: set[str] = set()
    _walk(path, owners, seen, executable=True)
    for argument in argv[1:]:
        if argument.startswith("/") and "\0" not in argument:
            _walk(argument, owners, seen, executable=False)


def _walk(path: str, owners: Collection[int], seen: set[str], *, executable: bool) -> None:
    """Look at every folder, link and file on the way to `path`, each once."""
    if not executable and not _is_file(path):
        return
    todo = [part for part in path.split("/")[::-1] if part not in {"", "."}]
    at, links = "", 0
    _look("/", owners, seen)
    while todo:
        part = todo.pop()
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        here = f"{at}/{part}"
        mode = _look(here, owners, seen)
        if mode is None:
            return
        if not stat.S_ISLNK(mode):
            at = here
            continue
        links += 1
        if links > _LINKS:
            return
        target = os.readlink(here)  # noqa: PTH115
        todo += [name for name in target.split("/")[::-1] if name not in {"", "."}]
        if target.startswith("/"):
            at = ""


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  (pathlib costs memory here)
    except OSError:
        return False


def _look(path: str, owners: Collection[int], seen: set[str]) -> int | None:
    """The mode of `path` itself, None when there is nothing to see; UnsafeFile when unsafe."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if path in seen:
        return status.st_mode
    mode = status.st_mode
    if status.st_uid not in owners:
        raise UnsafeFile(_describe(path, status, "it belongs to somebody who is not trusted"))
    if not stat.S_ISLNK(mode) and mode & _OTHERS_WRITE and not _is_shared_folder(status):
        raise UnsafeFile(_describe(path, status, "others than its owner can write to it"))
    seen.add(path)
    return mode


def _is_shared_folder(status: os.stat_result) -> bool:
    """A folder such as /tmp: only owners can rename or remove what is in it."""
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return bool(sticky) and status.st_uid == 0


def _describe(path: str, status: os.stat_result, why: str) -> str:
    mode = stat.S_IMODE(status.st_mode)
    return f"{path} (owner {_owner(status.st_uid)}, mode {mode:04o}): {why}"


def _owner(uid: int) -> str:
    import pwd  # only where somebody reads it: it loads the name service

    try:
        return f"{pwd.getpwuid(uid).pw_name}, uid {uid}"
    except KeyError:
        return f"uid {uid}"
