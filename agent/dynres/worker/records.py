"""What a stream printed so far -> what its newest complete records say; bounded in memory.

Bytes come as they come: a record counts when it is complete, of each resource the newest. What
is no record (a banner, a line over the limit) is refused and counted, and never fatal.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from dynres.value import Value, ValueType
from dynres.worker.elim_format import elim_record
from dynres.worker.formats import take
from dynres.worker.json_format import json_pairs
from dynres.worker.line_formats import braced, default_pairs, text_pair, value_pairs
from dynres.worker.load_sensor_format import BEGIN, END, load_sensor_record
from dynres.worker.merging import newest
from dynres.worker.outcome import Refused
from dynres.worker.pairs import Asked, BadOutputError, Pair, decode
from dynres.worker.plain_numbers import PlainNumbers
from dynres.worker.refusals import REFUSED_LIMIT
from dynres.worker.startd_cron_format import SEPARATOR, startd_cron_record

MOST: Final = 2000
"""Records that are read at once one by one; of more only the newest."""
JUDGED: Final = 100
"""Bare values that are judged at once in search of the newest good one."""
_BLANKS: Final = b" \t\r"
_INTEGER = re.compile(rb"-?[1-9][0-9]{0,14}\r?")
_NO_SIGNS: Final = bytes(set(range(256)) - set(b"=\n"))
_BOM: Final = b"\xef\xbb\xbf"


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What the records that have become complete say."""

    records: int = 0
    values: Mapping[str, Value | None] = {}
    missed: dict[str, str] = {}
    """Resource whose newest value was refused -> why; never one that was not mentioned."""
    refused: tuple[Refused, ...] = ()
    refusals: int = 0
    """How many things were refused."""


class Records:
    """The records of one stream; `limit`: most bytes of a line, and of a record of many lines."""

    def __init__(self, form: str | None, asked: Asked, limit: int) -> None:
        self._asked = asked
        self._limit = limit
        self._rest = b""
        self._skipping = False
        """Inside a line that is over the limit."""
        self._begun = False
        self._block: list[bytes] | None = None if form == "load_sensor" else []
        self._size = 0
        self._records = 0
        self._odd: list[Pair] = []
        self._odd_count = 0
        names = [*asked.names, *asked.resources]
        self._known = {
            name.encode(): name for name in names if asked.target(name) in asked.resources
        }
        self._numeric = {
            raw: asked.target(name)
            for raw, name in self._known.items()
            if asked.resources[asked.target(name)] == "numeric"
        }
        """Names that mean a numeric resource."""
        targets = Counter(self._numeric.values())
        self._numbers = {raw: name for raw, name in self._numeric.items() if targets[name] == 1}
        """Those of them that are the only name of it."""
        self._direct: dict[str, Value | None] = {}
        """Values that need no judging, of the batch at hand."""
        self._chosen = form is not None
        self._order: list[bytes] = []
        """The names of the last batch that gave each once."""
        self._plain: PlainNumbers | None = None
        """How batches like the last two are read."""
        self._read = self._reader(form)

    def feed(self, data: bytes) -> Batch:
        """Take what came; what it completes."""
        text = self._complete(data)
        if self._plain is not None and text is not None and not self._odd_count:
            numbers = self._plain.read(text) if len(text) <= self._limit else None
            if numbers is not None:
                return Batch(records=len(numbers), values=numbers)
        pairs = self._read(self._lines(text))
        direct, self._direct = self._direct, {}
        told = {self._asked.target(pair.name) for pair in pairs}
        for name in direct.keys() & told:
            del direct[name]  # said again later in the batch, in another way
        wanted: dict[str, ValueType] = {
            name: kind for name, kind in self._asked.resources.items() if name in told
        }
        parsed = take([*pairs, *self._odd], wanted, self._asked.names)
        batch = Batch(
            records=self._records,
            values=direct | parsed.values,
            missed=parsed.missed,
            refused=parsed.refused,
            refusals=len(parsed.refused) - len(self._odd) + self._odd_count,
        )
        self._records, self._odd, self._odd_count = 0, [], 0
        return batch

    def _reader(self, form: str | None) -> Callable[[list[bytes]], list[Pair]]:
        single = len(self._asked.resources) == 1 and not self._asked.several
        if form == "lines" or (form is None and not single):
            return self._named
        if form in {"value", None}:
            return self._bare if form else self._bare_or_named
        by_line = {"json": self._json, "elim": elim_record}.get(form or "")
        if by_line is not None:
            return lambda lines: self._each(lines, by_line)
        return self._sensor if form == "load_sensor" else self._cron

    # Lines

    def _complete(self, data: bytes) -> bytes | None:
        """The lines that are complete now, without the end of the last; None: there is none."""
        if self._skipping:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return None
            self._skipping = False
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest += rest
            self._cut()
            return None
        text = self._rest + head
        self._rest = rest
        self._cut()
        if not self._begun:
            self._begun = True
            text = text.removeprefix(_BOM)
        return text

    def _lines(self, text: bytes | None) -> list[bytes]:
        """Its lines, without those that are over the limit."""
        if text is None:
            return []
        lines = text.split(b"\n")
        if len(text) <= self._limit:
            return lines
        for line in lines:
            if len(line) > self._limit:
                self._refuse(line, f"a line of more than {self._limit} bytes")
        return [line for line in lines if len(line) <= self._limit]

    def _cut(self) -> None:
        """Give up a line that is over the limit before its end has come."""
        if len(self._rest) > self._limit:
            self._refuse(self._rest, f"a line of more than {self._limit} bytes")
            self._rest, self._skipping, self._begun = b"", True, True

    def _refuse(self, line: bytes, fault: str) -> None:
        self._odd_count += 1
        if len(self._odd) < REFUSED_LIMIT:
            self._odd.append(Pair(name="", text=decode(line[:200]), fault=fault))

    # Formats whose record is a line

    def _named(self, lines: list[bytes]) -> list[Pair]:
        """`NAME=value`; told apart without judging what is overtaken in the same batch."""
        latest = self._plainly_named(lines)
        if latest is None:
            latest, *later = self._one_by_one(lines)
            if later:  # the default choice: a line may be a JSON object
                return self._in_order(latest, later)
        pairs = []
        for name, text in latest.items():
            number = _INTEGER.fullmatch(text) if name in self._numbers else None
            if number is not None:
                self._direct[self._numbers[name]] = float(text)
            else:
                pairs.append(text_pair(self._known[name], text.strip(_BLANKS)))
        return pairs

    def _in_order(
        self, first: dict[bytes, bytes], later: list[tuple[bytes, dict[bytes, bytes]]]
    ) -> list[Pair]:
        """Names, and each object with the names that came after it: what came last counts."""
        records = [self._texts(first)]
        for line, names in later:
            records += [self._each([line], self._json), self._texts(names)]
        return newest(records, self._asked)

    def _texts(self, names: dict[bytes, bytes]) -> list[Pair]:
        return [text_pair(self._known[n], text.strip(_BLANKS)) for n, text in names.items()]

    def _plainly_named(self, lines: list[bytes]) -> dict[bytes, bytes] | None:
        """The newest text of each name, where every line is one known name, one `=`, a text.

        What streams print thousands of; it costs a tenth of looking at each line.
        """
        if not lines:
            return {}
        words = _words(b"\n".join(lines))
        if words is None:
            return None
        latest = dict(zip(words[::2], words[1::2], strict=True))
        if not latest.keys() <= self._known.keys():
            return None
        self._records += len(lines)
        if len(latest) == len(lines):
            self._learn(latest)
        return latest

    def _learn(self, names: Iterable[bytes]) -> None:
        """A batch gave each of these once; one that does so again is not the last."""
        order = list(names)
        targets = [target for name in order if (target := self._numeric.get(name)) is not None]
        if order == self._order and len(set(targets)) == len(order):
            self._plain = PlainNumbers(order, targets)
        self._order = order

    def _one_by_one(self, lines: list[bytes]) -> tuple[Any, ...]:
        """The newest text of each name; then each object, with the names that came after it."""
        first: dict[bytes, bytes] = {}
        latest, objects = first, []
        for line in lines:
            name, equals, text = line.partition(b"=")
            name = name.strip(_BLANKS)
            if equals and name in self._known:
                latest[name] = text
                self._records += 1
            elif braced(line.strip(_BLANKS)) and not self._chosen:
                latest = {}
                objects.append((line.strip(_BLANKS), latest))
            else:
                self._unnamed(line)
        return first, *objects

    def _unnamed(self, line: bytes) -> None:
        bare = line.strip(_BLANKS)
        if b"=" in bare:
            self._refuse(bare, "not asked of this probe on this host")
        elif bare:
            self._refuse(bare, "expected NAME=value")

    def _bare(self, lines: list[bytes]) -> list[Pair]:
        """The newest line that is a value of the only resource."""
        return self._newest_good(lines, value_pairs)

    def _bare_or_named(self, lines: list[bytes]) -> list[Pair]:
        return self._newest_good(lines, default_pairs)

    def _newest_good(
        self, lines: list[bytes], read: Callable[[bytes, Asked], list[Pair]]
    ) -> list[Pair]:
        full = [line for line in lines if line.strip(_BLANKS)]
        self._records += len(full)
        good: list[Pair] = []
        bad: list[tuple[bytes, str, list[Pair]]] = []
        for line in reversed(full[-JUDGED:]):
            try:
                pairs = read(line, self._asked)
            except BadOutputError as error:
                bad.append((line, str(error), []))
                continue
            problem = take(pairs, self._asked.resources, self._asked.names).problem
            if problem is not None:
                bad.append((line, problem, pairs))
            else:
                good = good or pairs
        self._records -= len(bad)
        shown = next((n for n, (_, _, pairs) in enumerate(bad) if pairs), None)
        if not good and shown is not None:  # judged again, and refused, where the batch is made
            good = bad.pop(shown)[2]
        for line, why, _ in bad:
            self._refuse(line, why)
        return good

    def _each(self, lines: list[bytes], read: Callable[[bytes], list[Pair]]) -> list[Pair]:
        """Each line a record that may tell of any resource."""
        full = [line for line in lines if line.strip(_BLANKS)]
        records = []
        for line in full[-MOST:]:
            try:
                pairs = read(line)
            except BadOutputError as error:
                self._refuse(line, str(error))
                continue
            if len(pairs) == 1 and pairs[0].fault is not None and not pairs[0].name:
                self._refuse(line, pairs[0].fault)
                continue
            records.append(pairs)
        self._records += len(full) - len(full[-MOST:]) + len(records)
        return newest(records, self._asked)

    def _json(self, line: bytes) -> list[Pair]:
        return json_pairs(line, self._asked)

    # Formats whose record is several lines

    def _sensor(self, lines: list[bytes]) -> list[Pair]:
        records = []
        for raw in lines:
            line = raw.strip(_BLANKS)
            if line == BEGIN:
                if self._block is not None:
                    self._refuse(BEGIN, "the record before it has no end")
                self._block, self._size = [], 0
            elif self._block is None:
                if line:
                    self._refuse(line, "expected begin")
            elif line == END:
                records.append(self._block)
                self._block = None
            else:
                self._add(line)
        return self._blocks(records, load_sensor_record)

    def _cron(self, lines: list[bytes]) -> list[Pair]:
        records = []
        for raw in lines:
            line = raw.strip(_BLANKS)
            if line.startswith(SEPARATOR):
                if self._block:
                    records.append(self._block)
                self._block, self._size = [], 0
            else:
                self._add(line)
        return self._blocks(records, startd_cron_record)

    def _add(self, line: bytes) -> None:
        """One line more in the record that is open; a record over the limit says nothing."""
        if not line or self._block is None:
            return
        self._size += len(line) + 1
        if self._size <= self._limit:
            self._block.append(line)
        else:
            if self._block:
                self._refuse(self._block[0], f"a record of more than {self._limit} bytes")
            self._block = []

    def _blocks(
        self, records: list[list[bytes]], read: Callable[[list[bytes], Asked], list[Pair]]
    ) -> list[Pair]:
        self._records += len(records)
        return newest((read(lines, self._asked) for lines in records[-MOST:]), self._asked)


def _words(text: bytes) -> list[bytes] | None:
    """Name, text, name, text…, where every line has exactly one `=`."""
    if text.translate(None, _NO_SIGNS) != b"=\n" * text.count(b"\n") + b"=":
        return None
    return text.replace(b"\n", b"=").split(b"=")
