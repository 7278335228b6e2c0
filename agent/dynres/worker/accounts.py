"""Users by name, looked up without blocking the agent: a directory service may not answer."""

import asyncio
import os
import pwd
import threading
from typing import NamedTuple


class Account(NamedTuple):
    """A user of this machine."""

    name: str
    uid: int
    home: str


class AccountError(Exception):
    """There is no such user."""


class Accounts:
    """Remembers every user that was found; one lookup of a name at a time."""

    def __init__(self) -> None:
        self._known: dict[str | None, Account] = {}
        self._asked: dict[str | None, asyncio.Future[Account | None]] = {}

    async def find(self, name: str | None) -> Account:
        """The user of that name, or the agent's own for None. Raises AccountError.

        It may take as long as the system takes; whoever waits sets the limit.
        """
        known = self._known.get(name)
        if known is not None:
            return known
        future = self._asked.get(name)
        if future is None:
            future = self._asked[name] = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._look_up, args=(name, future), daemon=True).start()
        found = await asyncio.shield(future)
        if found is None:
            raise AccountError(f"no such user: {name}")
        return found

    def _look_up(self, name: str | None, future: "asyncio.Future[Account | None]") -> None:
        """In a thread of its own, which nobody waits for when the agent ends."""
        loop = future.get_loop()
        found = own() if name is None else _named(name)
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._found, name, future, found)

    def _found(
        self, name: str | None, future: "asyncio.Future[Account | None]", found: Account | None
    ) -> None:
        if found is not None:
            self._known[name] = found
        self._asked.pop(name, None)
        if not future.done():
            future.set_result(found)


def own() -> Account:
    """The agent's own user; its number where it has no name (a container)."""
    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        return Account(str(uid), uid, "/")


def _named(name: str) -> Account | None:
    try:
        return _account(pwd.getpwnam(name))
    except KeyError:
        return None


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_dir)
