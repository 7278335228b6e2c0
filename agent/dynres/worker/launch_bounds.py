"""Bounds of runs, the launcher's own and those that it shares with the agent; imports nothing."""

SIGTERM, SIGKILL = 15, 9
"""By number: the module `signal` costs memory."""

STDERR_KEPT = 4096
"""Bytes of the end of a run's stderr that are kept."""

LAUNCHER_FD = 3
"""Descriptor on which the launcher finds its socket to the agent."""
SIDE_FD = 4
"""And its second one (`side`)."""

MOST_SHAPES = 4096
"""Requests that are known by a number; with more, both sides forget them all."""

SLOW_START = 0.03
"""Seconds after which a start's thread counts as hanging and another takes its place, and after
which the pipes of a run are looked at: most have ended by then, and are read once."""
TOGETHER = 0.005
"""Most seconds that an answer waits for those of other runs that began just now."""
QUIT = 0.5
"""Seconds that a stream which was told to quit has until SIGTERM."""
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_PATIENCE = 1.0
"""Seconds after SIGKILL until what is still there counts as stuck."""
DRAIN = 0.2
"""Seconds after the end of the process in which its pipes are still read."""
FAREWELL = 0.6
"""Most seconds for ending everything when the agent is gone."""
PLUGIN_FAREWELL = 0.2
"""And for what plugins have started."""
