"""The agent's side of the launcher: starts it, watches it, replaces it, and hands it runs."""

from dynres.worker.launch import LaunchRequest, LaunchResult


class LauncherClient:
    """Runs external commands through a launcher process that is replaced when it fails.

    `agent` names the agent on this machine (its host and state): what an earlier launcher of the
    same agent left behind is ended before the first run.
    """

    def __init__(self, agent: str) -> None:
        self._agent = agent

    async def start(self) -> None:
        """Start the launcher and wait until it is ready. Raises LauncherError."""
        raise NotImplementedError

    async def run(self, request: LaunchRequest) -> LaunchResult:
        """Run one command to its end. Never raises for what the command does.

        When the calling task is cancelled, the run is ended in the background.
        """
        raise NotImplementedError

    def cancel(self, run: str) -> None:
        """End a run now; it ends as `cancelled`. Nothing happens when it is over already."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the launcher and everything it runs; runs in flight end as `cancelled`."""
        raise NotImplementedError
