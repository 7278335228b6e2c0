"""What one controller is to be told now: everything at first, then only what has changed.

It keeps a copy of what that controller believes. A report names the runs that ended; what those
runs do not make the controller believe by themselves is sent as a value. So whatever is left out,
lost or late, the next report makes the belief true again, and nothing ever queues up.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import eq, ne
from typing import Final

from dynres.wire.messages import Echo, Measured, MeasuredNumbers, Report, Run
from dynres.wire.targets import resource_of
from dynres.worker.latest import Ended, Latest
from dynres.worker.numbers import Names, Numbers, packed
from dynres.worker.readings import Block, Reading, Readings

PENDING: Final = 8
"""Runs of one probe that are kept while the link takes no report; older ones are dropped."""
MANY: Final = 64
"""Numbers of which a sample is looked at first."""
SAMPLE: Final = 16
"""Each so many-eth number is in the sample."""


class Reporter:
    """The numbered reports to one controller, out of the agent's table."""

    def __init__(self, latest: Latest) -> None:
        self._latest = latest
        self.in_blocks = False
        """Whether this controller takes many numbers of one run side by side."""
        self.names_once = False
        """Whether it remembers whose numbers they are."""
        self.packed = False
        """Whether it takes them packed."""
        self._orders: dict[str, tuple[int, Names]] = {}
        """Probe -> the names of its numbers that the controller knows, and under which number."""
        self._draft_orders: dict[str, tuple[int, Names]] = {}
        self._last_order = 0
        self._told = Readings()
        self._pending: dict[str, deque[Ended]] = {}
        self._dirty: set[str] = set()
        self._measure: frozenset[str] | None = None
        self._full = True
        self._seq = 0
        self._draft: dict[str, Reading] = {}
        self._draft_blocks: list[Block] = []
        self._stamp: tuple[float, float] | None = None
        self._wanted_at: tuple[int, frozenset[str] | None] | None = None
        self._wanted_names: dict[str, list[str]] = {}
        """Probe -> what `_names` says, as long as neither rules nor wishes change."""

    def measure(self, names: Iterable[str]) -> None:
        """Report these targets only: what this controller wants of this host."""
        wanted = frozenset(names)
        self._dirty |= wanted - (self._measure or frozenset())
        self._measure = wanted
        told = self._told.loosen_all()
        for name in told.keys() - wanted:
            del told[name]

    def send_all(self) -> None:
        """The next report is a full one: the controller is new, or missed something."""
        self._full = True

    def ended(self, ended: Ended) -> None:
        """A run ended: the next report names it."""
        self._pending.setdefault(ended.probe, deque(maxlen=PENDING)).append(ended)

    @property
    def wanting(self) -> bool:
        """Whether there is something to report."""
        return self._full or bool(self._pending) or bool(self._dirty)

    def stamped(self, stamp: float, now: float) -> None:
        """The controller's stamp came at `now`."""
        self._stamp = (stamp, now)

    def unstamped(self) -> None:
        """Forget the stamp: it belongs to a connection that is gone."""
        self._stamp = None

    def echo(self, now: float) -> Echo | None:
        """The controller's last stamp and how long it has been here."""
        if self._stamp is None:
            return None
        return Echo(stamp=self._stamp[0], since=max(0.0, now - self._stamp[1]))

    def report(self, now: float) -> Report | None:
        """The report to send at `now`; None where there is nothing to say.

        Nothing is taken as told before `taken()`: a report that the link did not take is covered
        by the next one.
        """
        self._draft, self._draft_blocks, self._draft_orders = {}, [], {}
        if self._full:
            runs, values, blocks = self._everything()
        else:
            runs = [e for p, ended in self._pending.items() if self._names(p) for e in ended]
            values, blocks = self._changed()
            if not runs and not values and not blocks:
                self._pending.clear()
                self._dirty.clear()
                return None
        if not self.in_blocks:
            values += [each for block in blocks for each in block.items()]
            blocks = []
        return Report(
            seq=self._seq + 1,
            full=self._full,
            runs=tuple(_run(ended, now) for ended in runs),
            values=tuple(_measured(name, reading, now) for name, reading in values),
            numbers=tuple(self._measured_numbers(block, now) for block in blocks),
            echo=self.echo(now),
        )

    def taken(self) -> None:
        """The link took the last report."""
        if self._full:
            self._told, self._orders = Readings(), {}
        self._orders |= self._draft_orders
        self._told.update(self._draft)
        for block in self._draft_blocks:
            self._told.put_block(block)
        self._seq += 1
        self._full = False
        self._pending.clear()
        self._dirty.clear()

    def _everything(self) -> tuple[list[Ended], list[tuple[str, Reading]], list[Block]]:
        """The last run of every probe and all readings; the draft becomes the new belief."""
        for block in self._latest.table.blocks():
            if self._wants_all(block):
                self._draft_blocks.append(block)
        alone = [block.probe for block in self._draft_blocks]
        probes = dict.fromkeys(alone)
        for name, reading in self._latest.table.items(without=alone):
            if self._measure is None or name in self._measure:
                self._draft[name] = reading
                probes[reading.probe] = None
        states = (self._latest.probe(probe) for probe in probes)
        runs = [state.last for state in states if state is not None]
        return runs, list(self._draft.items()), self._draft_blocks

    def _changed(self) -> tuple[list[tuple[str, Reading]], list[Block]]:
        """The readings that the runs alone do not tell; the draft becomes the new belief."""
        changed: list[tuple[str, Reading]] = []
        blocks: list[Block] = []
        table = self._latest.table
        told = self._told
        seen: set[str] = set()
        for probe, pending in self._pending.items():
            good = [ended for ended in pending if ended.outcome == "ok"]
            block = table.block(probe)
            if block is not None and self._wants_all(block) and _is_of(block, good):
                blocks += self._news(block)
                self._draft_blocks.append(block)
                if self._dirty:
                    seen.update(block.numbers)
                continue
            names = self._names(probe)
            seen.update(names)
            told.loosen(probe)
            for name in names:
                reading, known = table.get(name), told.get(name)
                if reading is None or reading is known:
                    continue
                if known is None or not _follows(known, probe, good, name, reading):
                    changed.append((name, reading))
                self._draft[name] = reading
        for name in sorted(self._dirty - seen):
            reading = table.get(name) if self._measure is None or name in self._measure else None
            if reading is not None and not _same(told.get(name), reading):
                self._draft[name] = reading
                changed.append((name, reading))
        return changed, blocks

    def _news(self, block: Block) -> list[Block]:
        """What of a block its run alone does not tell: the numbers that are other ones.

        Where nearly all are, or their names need not be said, the others come along: it is cheaper.
        """
        names, numbers = block.numbers.names, block.numbers.numbers
        told = self._told.block(block.probe)
        if told is not None and told.numbers.names is names:
            before: Sequence[float | None] = told.numbers.numbers
            if len(numbers) >= MANY and True not in map(eq, before[::SAMPLE], numbers[::SAMPLE]):
                return [block]
        else:
            before = [_number(self._told.get(name), block.probe) for name in names.order]
        changed = list(map(ne, before, numbers))
        count = changed.count(True)
        if count == 0:
            return []
        if count == len(changed) or (self._known_order(block) and 2 * count >= len(changed)):
            return [block]
        some = Names(tuple(compress(names.order, changed)))
        return [block._replace(numbers=Numbers(some, list(compress(numbers, changed))))]

    def _known_order(self, block: Block) -> int:
        """The number under which the controller knows the names of a block; 0: it does not."""
        number, names = self._orders.get(block.probe, (0, None))
        return number if names is block.numbers.names and not self._full else 0

    def _measured_numbers(self, block: Block, now: float) -> MeasuredNumbers:
        names = block.numbers.names
        order = self._known_order(block)
        new = not order
        if new and self.names_once and self._latest.table.block(block.probe) is block:
            self._last_order = order = self._last_order + 1
            self._draft_orders[block.probe] = order, names
        numbers = block.numbers.numbers
        return MeasuredNumbers(
            probe=block.probe,
            age=max(0.0, now - block.measured),
            order=order,
            resources=names.order if new else None,
            values=[] if self.packed else list(numbers),
            packed=packed(numbers) if self.packed else None,
        )

    def _wants_all(self, block: Block) -> bool:
        """Whether this controller wants every target of the block's probe, which it holds."""
        return len(self._names(block.probe)) == len(block.numbers)

    def _names(self, probe: str) -> list[str]:
        """The targets of `probe` that this controller wants."""
        at = (self._latest.generation, self._measure)
        if self._wanted_at != at:
            self._wanted_at = at
            self._wanted_names.clear()
        names = self._wanted_names.get(probe)
        if names is None:
            wanted = self._measure
            names = sorted(
                name for name in self._latest.targets_of(probe) if wanted is None or name in wanted
            )
            self._wanted_names[probe] = names
        return names


def _is_of(block: Block, good: list[Ended]) -> bool:
    """Whether the block is what the last good run gave, and so all numbers are of that run."""
    return bool(good) and good[-1].started == block.measured and not good[-1].missed


def _number(told: Reading | None, probe: str) -> float | None:
    """The number that a controller was told of this probe, as a plain run gives it."""
    if told is None or told.probe != probe or told.reason is not None or told.fallback:
        return None
    return told.value if isinstance(told.value, float) else None


def _follows(known: Reading, probe: str, good: list[Ended], name: str, reading: Reading) -> bool:
    """Whether the controller knows `reading` out of what it was told and the runs that were ok."""
    if known.probe == probe:
        for ended in reversed(good):
            if not ended.missed or resource_of(name) not in ended.missed:
                if known[1] != reading[1]:  # most often: the value is another
                    return False
                known = known._replace(measured=ended.started)
                break
    return _same(known, reading)


def _same(believed: Reading | None, reading: Reading) -> bool:
    """Whether the controller knows it; of an unavailable value the instant does not matter."""
    if believed is None or reading.value is not None:
        return believed == reading
    return believed._replace(measured=reading.measured) == reading


def _measured(name: str, reading: Reading, now: float) -> Measured:
    resource, _, instance = name.partition("/")
    return Measured(
        resource=resource,
        instance=instance or None,
        probe=reading.probe,
        age=max(0.0, now - reading.measured),
        value=reading.value,
        reason=reading.reason,
        fallback=reading.fallback,
    )


def _run(ended: Ended, now: float) -> Run:
    return Run(
        probe=ended.probe,
        outcome=ended.outcome,
        age=max(0.0, now - ended.started),
        duration=ended.duration,
        reason=ended.reason,
        missed=dict(ended.missed),
        not_here=ended.not_here,
    )
