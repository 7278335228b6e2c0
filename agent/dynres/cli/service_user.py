"""Becomes the user that the service runs as: what a person tries is then what the daemon does."""

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import dynres
from dynres.cli import output
from dynres.cli.kept import keeping
from dynres.cli.output import CommandError

SERVICE: Final = "dynres"
NOBODY: Final = "nobody"


def become_service_user(capabilities: int = 0) -> None:
    """From now on as the service's user where we are root, else as we are (with a message).

    `capabilities`: a mask of those that the service has.

    Where that user cannot execute this very Python (one in root's home) we stay root, as an agent
    that is root there: commands run as that user all the same. Raises CommandError.
    """
    if os.geteuid() != 0:
        _warn_if_another()
        _as_a_service()
        return
    account = service_account()
    if account is None:
        raise CommandError(f"neither {SERVICE} nor {NOBODY} is a user of this machine")
    name = account.pw_name
    if name != SERVICE:
        output.tell(f"warning: there is no user {SERVICE}: this runs as {name}")
    if not asked_as(account, _can_execute_us):
        output.tell(
            f"warning: {name} cannot execute {os.path.realpath(sys.executable)}: "
            f"commands run as {name}, plugins as root"
        )
        os.environ.update(HOME="/root", USER="root")
    else:
        _become(account, capabilities)
        os.environ.update(HOME=account.pw_dir, USER=name, LOGNAME=name)
    _as_a_service()


def service_account() -> pwd.struct_passwd | None:
    """The service's user, else nobody's; None where there is neither."""
    return _account(SERVICE) or _account(NOBODY)


def _as_a_service() -> None:
    """The folder and the mask of a service."""
    os.chdir("/")
    os.umask(0o022)
    os.environ.pop("XDG_RUNTIME_DIR", None)


def _become(account: pwd.struct_passwd, capabilities: int = 0) -> None:
    try:
        with keeping(capabilities):
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
    except OSError as error:
        raise CommandError(f"cannot become {account.pw_name}: {error.strerror}") from error


def asked_as(account: pwd.struct_passwd, question: Callable[[], bool]) -> bool:
    """The answer of a child that becomes that user for it; for root only."""
    pid = os.fork()
    if pid == 0:
        answer = False
        try:
            _become(account)
            answer = question()
        finally:
            os._exit(0 if answer else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _can_execute_us() -> bool:
    folders = (Path(os.__file__).parent, Path(dynres.__file__).parent)
    return os.access(sys.executable, os.X_OK) and all(
        os.access(folder, os.R_OK | os.X_OK) for folder in folders
    )


def _warn_if_another() -> None:
    service = _account(SERVICE)
    if service is not None and service.pw_uid != os.geteuid():
        output.tell(f"warning: this runs as you; the service runs as {SERVICE} (root becomes it)")


def _account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
