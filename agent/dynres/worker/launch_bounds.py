"""Bounds that the launcher and the agent share; imports nothing, so that both can."""

STDERR_KEPT = 4096
"""Bytes of the end of a run's stderr that are kept."""

LAUNCHER_FD = 3
"""Descriptor on which the launcher finds its socket to the agent."""

MOST_SHAPES = 4096
"""Requests that are known by a number; with more, both sides forget them all."""
