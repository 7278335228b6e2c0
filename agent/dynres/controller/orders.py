"""Whose numbers they are that reports give side by side: lists of names, told once by each session.

Thousands of agents that run the same stream share one list.
"""

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakValueDictionary

from dynres.wire.messages import MeasuredNumbers


class Order:
    """Names of resources, in the order of their numbers."""

    __slots__ = ("__weakref__", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names


class OrderStore:
    """The lists that sessions refer to."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, Order] = WeakValueDictionary()

    def share(self, names: tuple[str, ...]) -> Order:
        """The list of these names that is known already, or a new one."""
        key = hash(names)
        known = self._known.get(key)
        if known is None or known.names != names:
            known = self._known[key] = Order(names)
        return known


class Named(NamedTuple):
    """Numbers and their names; `order` None: they refer to a list that has not come."""

    given: MeasuredNumbers
    order: Order | None

    @property
    def paired(self) -> bool:
        """Whether there is a number for each name, as far as is known."""
        return self.order is None or len(self.order.names) == self.given.count


class Orders:
    """The lists that one session has told since its last full report, one a probe."""

    def __init__(self, store: OrderStore) -> None:
        self._store = store
        self._known: dict[str, tuple[int, Order]] = {}

    def named(self, numbers: Iterable[MeasuredNumbers], *, full: bool) -> list[Named]:
        """The numbers of a report with their names; in a `full` one nothing from before counts."""
        return [Named(given, self._order(given, full=full)) for given in numbers]

    def _order(self, given: MeasuredNumbers, *, full: bool) -> Order | None:
        if given.resources is None:
            number, order = self._known.get(given.probe, (0, None))
            return order if number == given.order and not full else None
        return self._store.share(given.resources) if given.order else Order(given.resources)

    def keep(self, named: Iterable[Named], *, full: bool, room: int) -> None:
        """A report was taken: remember what it has told, of at most `room` names in all."""
        if full:
            self._known.clear()
        for given, order in named:
            if order is not None and given.order:
                self._known.pop(given.probe, None)
                kept = sum(len(known.names) + 1 for _, known in self._known.values())
                if kept + len(order.names) + 1 <= room:
                    self._known[given.probe] = given.order, order
