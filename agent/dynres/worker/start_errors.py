"""Says in words a person can act on why a command could not be started."""

from __future__ import annotations

import errno
import os
import stat


def explain(error: OSError, path: str, cwd: str) -> str:
    """The reason why `path` did not start in `cwd`; looks at the files to tell cases apart."""
    code = error.errno or 0
    if error.filename is None:
        return _WORDS.get(code, error.strerror or str(error))
    if error.filename != path:
        return f"{error.strerror}: {error.filename}"
    in_folder = _folder_fault(cwd)
    if in_folder and code in {errno.ENOENT, errno.EACCES, errno.ENOTDIR}:
        return in_folder
    if code == errno.ENOENT:
        return _missing(path)
    if code == errno.EACCES:
        return _no_access(path)
    return f"{_WORDS.get(code, error.strerror)}: {path}"


_WORDS = {
    errno.ENOEXEC: "no `#!` line, and not a program of this machine",
    errno.ETXTBSY: "text file busy (somebody has it open for writing)",
    errno.EAGAIN: "too many processes (limit of the user or of the cgroup)",
    errno.ENOMEM: "not enough memory to start it",
    errno.E2BIG: "argument list too long (arguments and environment together)",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.ELOOP: "too many symbolic links",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EMFILE: "the launcher has too many open files",
    errno.ENFILE: "this machine has too many open files",
}


def _folder_fault(cwd: str) -> str | None:
    """What is wrong with the working folder, if anything."""
    try:
        status = os.stat(cwd)  # noqa: PTH116
    except FileNotFoundError:
        return f"the working folder does not exist: {cwd}"
    except OSError as error:
        return f"the working folder cannot be entered: {cwd}: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"the working folder is not a folder: {cwd}"
    return None if os.access(cwd, os.X_OK) else f"the working folder cannot be entered: {cwd}"


def _missing(path: str) -> str:
    interpreter = _interpreter(path)
    if interpreter is None:
        return f"no such file: {path}"
    if interpreter.endswith(b"\r"):
        shown = interpreter.decode(errors="backslashreplace").replace("\r", "\\r")
        return f"interpreter `{shown}` not found: {path} has CRLF line ends; save it with LF"
    if interpreter:
        shown = interpreter.decode(errors="backslashreplace")
        return f"interpreter `{shown}` not found: the `#!` line of {path} names it"
    return f"its program loader is not found (built for another system?): {path}"


def _interpreter(path: str) -> bytes | None:
    """What the `#!` line names; empty without such a line; None when there is no file."""
    try:
        with open(path, "rb") as file:
            head = file.read(256)
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    if not head.startswith(b"#!"):
        return b""
    words = head[2:].split(b"\n")[0].strip(b" \t").split(None, 1)
    line = head[2:].split(b"\n")[0]
    if line.endswith(b"\r") and len(words) == 1:
        return words[0].rstrip(b"\r") + b"\r"
    return words[0] if words else b""


def _no_access(path: str) -> str:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return f"permission denied on the way to it: {path}"
    if stat.S_ISDIR(mode):
        return f"a folder, not a program: {path}"
    if not stat.S_ISREG(mode):
        return f"not a regular file: {path}"
    if not mode & 0o111:
        return f"not executable (mode {stat.S_IMODE(mode):04o}; chmod +x): {path}"
    return f"permission denied, or a file system mounted noexec: {path}"
