"""Makes this process what probes inherit from: user, umask, folder, limits; sweeps old ones."""

from __future__ import annotations

import os
import resource

from dynres.worker import native
from dynres.worker.orphans import sweep

MORE_OOM = 200
"""Added to the agent's `oom_score_adj`: memory is taken from probes first."""
OPEN_FILES = 4096
"""Three descriptors a run; the usual soft limit of 1024 is not enough for 400 runs at once."""
SWEEP_PATIENCE = 0.5


class SetupFault(Exception):  # noqa: N818  (told to the agent, not raised at a caller)
    """Why this launcher cannot work, in words."""


def set_up(agent: str, session: str, user: str | None) -> None:
    """Prepare this process, and end what an earlier launcher left. Raises SetupFault."""
    native.one_heap()
    native.ignore_stop_signals()
    os.umask(0o022)
    os.chdir("/")
    _raise_open_files()
    _raise_oom_score()
    try:
        native.become_subreaper()
    except OSError as error:
        raise SetupFault(f"cannot become a subreaper: {error.strerror}") from None
    if user is not None:
        _become(user)
    sweep(agent, session, SWEEP_PATIENCE)


def _become(name: str) -> None:
    import pwd  # loads the name service: only where a user was asked for

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise SetupFault(f"no such user: {name}") from None
    if entry.pw_uid == os.geteuid():
        return
    try:
        os.initgroups(name, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        native.stay_readable()
    except OSError as error:
        raise SetupFault(
            f"cannot run probes as {name}: {error.strerror}"
            " (the agent needs CAP_SETUID, CAP_SETGID and CAP_KILL, or to be root)"
        ) from None


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _raise_oom_score() -> None:
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            score = min(1000, int(file.read()) + MORE_OOM)
            file.write(b"%d" % score)
    except (OSError, ValueError):
        pass  # no /proc, or not ours to write: probes keep the agent's score
