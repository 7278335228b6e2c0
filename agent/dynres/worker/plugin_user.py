"""Makes a plugin host another user's, before any plugin is loaded."""

from __future__ import annotations

import os
import pwd

from dynres.worker import native, plugin_find

TYPE_CHECKING = False  # for the size of the plugin host
if TYPE_CHECKING:
    from typing import Final

_LATER: Final = (
    *("encodings.ascii", "encodings.latin_1", "encodings.idna", "psutil", "subprocess"),
    *("dataclasses", "difflib", "msgspec", "threading", "traceback"),
)
"""What shipped probes, and this host, load only when they need it."""


class UserFault(Exception):  # noqa: N818  (told to the agent, not raised at a caller)
    """Why this host cannot be that user's, in words."""


def become(name: str) -> None:
    """Be that user from now on. Raises UserFault.

    Where the user cannot read this installation, the shipped probes are loaded first; no others.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UserFault(f"no such user: {name}") from None
    try:
        os.initgroups(name, entry.pw_gid)
        os.setegid(entry.pw_gid)
        os.seteuid(entry.pw_uid)
        unreadable = _unreadable()
        os.seteuid(os.getuid())
        if unreadable is not None:
            _load_shipped()
            plugin_find.hindrance = f"{name} cannot read {unreadable}"
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except OSError as error:
        raise UserFault(
            f"cannot run plugins as {name}: {error.strerror}"
            " (the agent needs CAP_SETUID, CAP_SETGID and CAP_KILL, or to be root)"
        ) from None
    native.stay_readable()
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name)


def _unreadable() -> str | None:
    """What of Python and of dynres the user that we are now cannot read."""
    for file in (os.__file__, __file__):
        try:
            open(file, "rb", buffering=0).close()
        except OSError:
            return file
    return None


def _load_shipped() -> None:
    import contextlib
    import importlib
    import pkgutil

    plugin_find.remember()
    for point in plugin_find.installed():
        if point.distribution == "dynres":
            with contextlib.suppress(ImportError):
                package = importlib.import_module(point.module.partition(".")[0])
                for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                    importlib.import_module(module.name)
                break
    for name in _LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
