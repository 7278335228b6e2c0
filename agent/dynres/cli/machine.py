"""What `dynres doctor` finds out about the agent's process, its files and its folders."""

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dynres.cli.findings import Finding, fail, good, warn
from dynres.cli.local import ask_agent, runtime_folders
from dynres.cli.output import CommandError
from dynres.cli.service_user import asked_as, service_account
from dynres.config.model import Configuration

CAPABILITIES: Final = {"CAP_SETUID": 7, "CAP_SETGID": 6, "CAP_KILL": 5}
"""What running a probe as another user takes, by the kernel's numbers."""
OPEN_FILES: Final = 4096
PROCESSES: Final = 512


@dataclass(frozen=True, slots=True)
class Process:
    """The running agent, or, where none runs, what would become of one that we start."""

    status: Mapping[str, str]
    limits: Mapping[str, tuple[str, str]]
    account: pwd.struct_passwd | None
    running: bool

    @staticmethod
    def of(pid: int | None) -> "Process":
        """By /proc; without a pid ourselves, as the service's user where we are root."""
        where = Path("/proc", "self" if pid is None else str(pid))
        status = dict(_pairs(_text(where / "status")))
        uid = int(status.get("Uid", str(os.geteuid())).split()[0])
        account = _account(uid)
        if pid is None and uid == 0:
            account = service_account()
        return Process(status, dict(_limits(_text(where / "limits"))), account, pid is not None)

    @property
    def name(self) -> str:
        """The user's name."""
        return self.account.pw_name if self.account else self.status.get("Uid", "?").split()[0]

    @property
    def uid(self) -> int:
        """The user's number."""
        return self.account.pw_uid if self.account else os.geteuid()


def capabilities_of_agent(host: str | None) -> int:
    """The mask of those `CAPABILITIES` that the running agent has; 0 where none runs."""
    try:
        pid = ask_agent(host, "status")["pid"]
    except CommandError:
        return 0
    held = int(Process.of(pid).status.get("CapEff", "0"), 16)
    return held & sum(1 << bit for bit in CAPABILITIES.values())


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def _limits(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name -> soft and hard limit of each line of /proc/PID/limits."""
    for line in text.splitlines()[1:]:
        soft, hard = line[26:].split()[:2]
        yield line[:26].strip(), (soft, hard)


def _account(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def user(process: Process) -> Iterator[Finding]:
    """Who it runs as."""
    is_root = process.running and process.uid == 0
    if is_root:
        todo = "give it a user of its own: User=dynres in its unit"
        yield warn("user", "the agent runs as root, and so do its plugins", todo)
        return
    service = service_account()
    if process.running or (service is not None and service.pw_name == process.name == "dynres"):
        yield good("user", f"the agent runs as {process.name}")
    else:
        todo = "useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin dynres"
        yield warn("user", f"there is no user dynres: this looks at {process.name}", todo)


def path(text: str) -> Iterator[Finding]:
    """Where commands without a slash are looked up."""
    odd = []
    for folder in text.split(":"):
        try:
            status = Path(folder).stat()
        except OSError:
            continue  # a folder that is not there does no harm
        if not folder.startswith("/"):
            odd.append(f"{folder or '.'} is relative")
        elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            odd.append(f"{folder} can be written by everybody")
    if odd:
        yield fail("path", "; ".join(odd), "mend `path:` of agent.yaml, or the folder's mode")
    elif not any(Path(folder, "sh").exists() for folder in text.split(":")):
        yield fail("path", f"no sh in {text}", "mend `path:` of agent.yaml")
    else:
        yield good("path", text)


def privileges(process: Process, configuration: Configuration) -> Iterator[Finding]:
    """Whether probes may do what their declarations ask for."""
    if process.status.get("NoNewPrivs") == "1":
        todo = "leave out NoNewPrivileges= and what implies it where a probe needs sudo or ping"
        yield warn("privileges", "NoNewPrivileges is set: no setuid program works", todo)
    else:
        yield good("privileges", "NoNewPrivileges is not set: setuid programs work")
    others = sorted(_other_users(process.name, configuration))
    held = int(process.status.get("CapEff", "0"), 16) if process.running else 0
    missing = [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]
    if not others:
        yield good("capabilities", "no probe asks for another user")
    elif not missing:
        yield good("capabilities", f"probes can run as {', '.join(others)}")
    else:
        said = f"probes ask for the user {', '.join(others)}; missing: {', '.join(missing)}"
        todo = f"AmbientCapabilities={' '.join(CAPABILITIES)} in the agent's unit"
        yield (fail if process.running else warn)("capabilities", said, todo)


def _other_users(own: str, configuration: Configuration) -> set[str]:
    default = configuration.agent.user
    users = {probe.user or default for probe in configuration.probes if probe.command}
    return {user for user in users if user is not None and user != own}


def limits(process: Process) -> Iterator[Finding]:
    """How many files and processes it may have."""
    low = []
    for name, least in (("Max open files", OPEN_FILES), ("Max processes", PROCESSES)):
        _, hard = process.limits.get(name, ("", "unlimited"))
        if hard.isdigit() and int(hard) < least:
            low.append(f"{name.lower()} {hard} (at least {least})")
    if low:
        todo = "LimitNOFILE= and LimitNPROC= in its unit, or ulimit"
        yield warn("limits", "; ".join(low), todo)
    else:
        yield good("limits", "open files and processes suffice")


def runtime_folder(process: Process) -> Iterator[Finding]:
    """Where its socket is."""
    there = [folder for folder in runtime_folders() if folder.is_dir()]
    if not there:
        where = " or ".join(map(str, runtime_folders()))
        todo = "RuntimeDirectory=dynres in its unit, or set DYNRES_RUNTIME to a folder of its own"
        yield warn("runtime", f"there is no {where}: the agent's socket goes there", todo)
    for folder in there:
        status = folder.stat()
        if status.st_mode & stat.S_IWOTH:
            said = f"{folder} can be written by everybody: anybody can take the socket's place"
            yield fail("runtime", said, f"chmod o-w {folder}")
        elif status.st_uid not in {process.uid, 0} or not _can(process, folder, os.W_OK):
            todo = f"chown {process.name} {folder}"
            yield fail("runtime", f"{folder} is not {process.name}'s to write to", todo)
        else:
            yield good("runtime", f"{folder} is writable for {process.name} only")
        for sock in folder.glob("agent-*.sock"):
            if sock.stat().st_mode & stat.S_IRWXO:
                yield fail("socket", f"{sock}: everybody may use it", f"chmod o= {sock}")


def configuration_files(folder: Path, process: Process) -> Iterator[Finding]:
    """Whether it can read its files, and nobody else write them: they name commands to run."""
    if not folder.is_dir():
        return  # said already: it could not be loaded
    files = [folder, *(p for p in sorted(folder.rglob("*")) if p.suffix in {".yaml", ".yml"})]
    open_to_all = [str(p) for p in files if p.stat().st_mode & stat.S_IWOTH]
    unread = [str(p) for p in files if not _can(process, p, os.R_OK)]
    if open_to_all:
        said = f"everybody can write {', '.join(open_to_all)}, and so run commands"
        yield fail("permissions", said, f"chmod -R o-w {folder}")
    if unread:
        said = f"{process.name} cannot read {', '.join(unread)}"
        yield fail("permissions", said, "chmod o+r (and o+x for folders), or another group")
    if not open_to_all and not unread:
        yield good("permissions", f"{folder} can be read by {process.name}, written by few")


def _can(process: Process, path: Path, how: int) -> bool:
    account = process.account
    if os.geteuid() != 0 or account is None or account.pw_uid == 0:
        return os.access(path, how)
    return asked_as(account, lambda: os.access(path, how))
