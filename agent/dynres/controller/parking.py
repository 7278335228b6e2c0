"""Clients whose requests wait: who is told when their turn has come, or their time is over."""

from collections.abc import Callable, Iterator

from dynres.controller.waiting import Waiter
from dynres.wire.requests import AnyAnswer

Reply = Callable[[AnyAnswer], bool]
"""Sends an answer; False: the client is gone."""


class Guest:
    """One client that waits for a request. `cancel` stops its timer."""

    __slots__ = ("cancel", "over", "reply")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.over = False
        """Its time was over while its grant was on its way."""
        self.cancel: Callable[[], None] = lambda: None


class Parked:
    """A request that waits, and the clients that have asked it: a retry is one more."""

    __slots__ = ("guests", "since", "waiter")

    def __init__(self, waiter: Waiter, since: float) -> None:
        self.waiter = waiter
        self.since = since
        self.guests: list[Guest] = []


class Parking:
    """All requests that wait."""

    def __init__(self) -> None:
        self._parked: dict[Waiter, Parked] = {}

    def __iter__(self) -> Iterator[Parked]:
        return iter(list(self._parked.values()))

    def __len__(self) -> int:
        return len(self._parked)

    def get(self, waiter: Waiter | None) -> Parked | None:
        """The place of a waiter."""
        return None if waiter is None else self._parked.get(waiter)

    def admit(self, waiter: Waiter, reply: Reply, now: float) -> Guest:
        """One more client waits."""
        parked = self._parked.get(waiter)
        if parked is None:
            parked = self._parked[waiter] = Parked(waiter, now)
        guest = Guest(reply)
        parked.guests.append(guest)
        return guest

    def dismiss(self, parked: Parked, guest: Guest) -> bool:
        """A client waits no more; whether nobody is left who does."""
        guest.cancel()
        if guest in parked.guests:
            parked.guests.remove(guest)
        return not parked.guests

    def end(self, parked: Parked) -> list[Guest]:
        """The request waits no more; whoever is to be told."""
        self._parked.pop(parked.waiter, None)
        for guest in parked.guests:
            guest.cancel()
        return parked.guests
