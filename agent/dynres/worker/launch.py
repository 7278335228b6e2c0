"""What the agent asks its launcher to run, and what it is told of the end.

They travel as dictionaries of their fields; the launcher itself does without these types, for
its size.
"""

from typing import Literal, NamedTuple

LaunchStatus = Literal[
    "exited", "signalled", "timeout", "stuck", "too_large", "start_error", "refused", "cancelled"
]


class LaunchRequest(NamedTuple):
    """One run of one external command.

    `argv[0]` is an absolute path, or a name that is looked up in `env["PATH"]`. `env` is the whole
    environment of the child (the launcher adds its two markers). Times are seconds, sizes bytes.
    """

    run: str
    """Names the run: unique among those of one client; also what `cancel` takes."""
    argv: tuple[str, ...]
    env: dict[str, str]
    timeout: float
    """From the moment the launcher has the request; checks and start count."""
    cwd: str = "/"
    output_limit: int = 64 * 1024
    """Most bytes of stdout."""
    user: str | None = None
    """Run as this user; None: as the agent's own."""
    nice: int = 0
    memory: int | None = None
    """RLIMIT_AS of the child."""
    cpu: float | None = None
    """RLIMIT_CPU of the child (per process), rounded up to whole seconds."""
    processes: int | None = None
    """Processes and threads of the child in all, on top of what its user has at the start."""
    allow_unsafe: bool = False
    """Skip the check of who owns the files."""
    trusted: tuple[int, ...] = ()
    """User ids beside root and the agent's own that may own the files."""
    stream: bool = False
    """It stays: `timeout` bounds its start only, and its output is handed on as it comes."""
    talks: bool = False
    """Its stdin is a pipe from the agent; else /dev/null."""


class LaunchResult(NamedTuple):
    """How one run ended. Nothing of its output has been interpreted."""

    run: str
    status: LaunchStatus
    reason: str | None = None
    """In words, for every status but `exited`."""
    exit: int | None = None
    """Exit status, with `exited`."""
    signal: int | None = None
    """Signal number, with `signalled`."""
    stdout: bytes = b""
    """Everything on stdout; with `too_large`, the beginning."""
    stderr: bytes = b""
    """The last bytes of stderr, at most `launch_bounds.STDERR_KEPT`."""
    started: float = 0.0
    """CLOCK_BOOTTIME instant at which the run began (checks and start included)."""
    duration: float = 0.0
    """Seconds from `started` to the end of the run."""
