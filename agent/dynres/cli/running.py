"""What `dynres run` does: acquire, run and renew, release; whatever happens on the way."""

import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dynres.cli import output
from dynres.cli.asked import without_groups
from dynres.cli.command import CannotStartError, Command, hold
from dynres.cli.lease_words import shortages_text
from dynres.cli.output import Exit
from dynres.value import format_duration
from dynres.wire.lease_views import AcquireView
from dynres.wire.leasing import Need, Seat, Waiting

if TYPE_CHECKING:
    from dynres.client import Client

TIMEOUT: Final = 5.0
PARTS: Final = 3
"""A lease is renewed so often within its ttl."""
AGAIN: Final = 2.0
"""Seconds until a renew that failed is tried again, at most."""
LAST_TRY: Final = 10.0
"""Seconds for the release at the end."""
REPEAT: Final = 60.0
"""Seconds after which it is said again what is waited for."""


class NotRunError(Exception):
    """The command was not run; `exit_code` is 69, 75, 77 or 111."""

    def __init__(self, code: str, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code


def tell(text: str) -> None:
    """Say something on stderr, where the command's own messages go too."""
    output.tell(f"dynres run: {output.printable(text)}")


class Run:
    """One run of a command."""

    def __init__(
        self,
        endpoints: tuple[str, ...],
        job: str,
        seats: tuple[Seat, ...],
        needs: tuple[Need, ...],
        *,
        owner: str,
        ttl: float,
        wait: float,
    ) -> None:
        self._endpoints = endpoints
        self._job = job
        self._seats = seats
        self._needs = needs
        self._owner = owner
        self._ttl = ttl
        self._wait = wait
        self._leases: tuple[str, ...] = ()
        self._ended = threading.Event()
        self._told: tuple[str, float] = ("", 0.0)
        self._waited = False

    def go(self, command: Sequence[str]) -> int:
        """Run it; its exit status. Raises NotRunError."""
        from dynres.client import Client

        with Client(self._endpoints, timeout=TIMEOUT) as client:
            began = time.monotonic()
            self._acquire(client)
            hold()
            if self._waited:
                tell(f"granted after {_seconds(time.monotonic() - began)}")
        renewing = threading.Thread(target=self._renew, name="renew", daemon=True)
        try:
            environment = {**os.environ, "DYNRES_JOB": self._job}
            child = Command(command, environment)
            renewing.start()
            return child.wait()
        except CannotStartError as error:
            tell(str(error))
            return error.exit_code
        finally:
            self._ended.set()
            if renewing.ident is not None:
                renewing.join()
            self._release()

    # before

    def _acquire(self, client: "Client") -> None:
        from dynres.client import ClientError, UnreachableError

        try:
            self._seats = without_groups(client, self._seats)
            view = client.acquire(
                self._job,
                self._seats,
                self._needs,
                owner=self._owner,
                ttl=self._ttl,
                wait=self._wait,
                on_wait=self._waiting,
            )
        except UnreachableError as error:
            raise NotRunError(error.code, error.message, Exit.UNREACHABLE) from error
        except ClientError as error:
            codes = {"not_owner": Exit.NOT_ALLOWED, "not_allowed": Exit.NOT_ALLOWED}
            codes |= {"ledger": Exit.WAIT, "internal": Exit.WAIT, "protocol": Exit.WAIT}
            code = codes.get(error.code, Exit.NEVER)
            raise NotRunError(error.code, error.message, code) from error
        if view.answer != "granted":
            code = Exit.WAIT if view.answer == "wait" else Exit.NEVER
            lacks = shortages_text(view.shortages)
            raise NotRunError(view.answer, f"{view.answer}: {lacks}", code)
        self._took(view)

    def _took(self, view: AcquireView) -> None:
        self._leases = tuple(lease.lease for lease in view.leases)

    def _waiting(self, sign: Waiting) -> None:
        """Say what it waits for: at first, when that changes, and once a minute."""
        self._waited = True
        text = shortages_text(sign.view.shortages)
        said, at = self._told
        now = time.monotonic()
        if text and (text != said or now - at >= REPEAT):
            self._told = (text, now)
            long = f" (since {_seconds(sign.since)})" if sign.since >= 1 else ""
            tell(f"waiting for {text}{long}")

    # meanwhile

    def _renew(self) -> None:
        """Until the command ends; a failure is tried again, an expiry made good."""
        from dynres.client import Client, ClientError

        pause = self._ttl / PARTS
        failed = False
        with Client(self._endpoints, timeout=TIMEOUT) as client:
            while not self._ended.wait(pause):
                pause = self._ttl / PARTS
                if not self._leases:
                    continue
                try:
                    self._renew_once(client)
                except ClientError as error:
                    pause = min(AGAIN, self._ttl / PARTS)
                    if not failed:
                        tell(f"the lease could not be renewed, which is tried again: {error}")
                    failed = True
                else:
                    if failed:
                        tell("the lease is renewed again")
                    failed = False

    def _renew_once(self, client: "Client") -> None:
        from dynres.client import RequestRefusedError

        try:
            client.renew(lease=self._leases, owner=self._owner)
        except RequestRefusedError as error:
            if error.code != "unknown_lease":
                raise
            if not self._ended.is_set():
                self._take_again(client)

    def _take_again(self, client: "Client") -> None:
        alive = self._alive(client)
        if alive:
            client.release(lease=alive, owner=self._owner)
        view = client.acquire(
            self._job, self._seats, self._needs, owner=self._owner, ttl=self._ttl, running=True
        )
        if view.answer == "granted":
            self._took(view)
            tell(
                "the lease is gone (it has expired, or was released by somebody else); it is taken "
                "again, as of a job that runs"
            )

    def _alive(self, client: "Client") -> list[str]:
        """Those of the leases that are left: all are taken again together."""
        held = client.leases(job=self._job, owner=self._owner).leases
        return [one.lease for one in held if one.lease in self._leases]

    # after

    def _release(self) -> None:
        from dynres.client import Client, ClientError

        if not self._leases:
            return
        deadline = time.monotonic() + LAST_TRY
        while True:
            try:
                with Client(self._endpoints, timeout=TIMEOUT) as client:
                    client.release(lease=self._leases, owner=self._owner)
            except ClientError as error:
                if error.code == "unknown_lease":
                    return
                if time.monotonic() >= deadline or error.code not in {"unreachable", "ledger"}:
                    ttl = format_duration(self._ttl)
                    tell(f"could not release, its ttl of {ttl} will: {error}")
                    return
                time.sleep(0.25)
            else:
                return


def _seconds(seconds: float) -> str:
    return (
        format_duration(round(seconds, 1) if seconds < 10 else round(seconds)) if seconds else "0s"
    )
