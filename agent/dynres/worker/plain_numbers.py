"""Batches that give a plain number for each of the same names, read in one go.

C reads them (`_plain.c`), where dynres was installed with a C compiler, and where all numbers are
as plain as most are. Otherwise lines of `NAME=NUMBER` become a JSON object, of which msgspec's
decoder makes doubles: every number of JSON is one of ours and the same double, and so are the
blanks around it. Whatever is odd in a batch makes it another thing than such an object, and is left
to the exact way of reading.
"""

import re
from array import array
from collections.abc import Callable
from typing import Final

import msgspec

from dynres.value import STRING_LIMIT
from dynres.worker.numbers import Names, Numbers

read_plain: Callable[[bytes, bytes, int], bytes | None] | None
try:
    from dynres.worker._plain import read as read_plain
except ImportError:  # installed without a C compiler
    read_plain = None

_STEP: Final = STRING_LIMIT // 2
_ENDLESS: Final = re.compile(rb"[eE][+-]?0*[1-9]\d{6}")
"""An exponent that is refused, and that JSON takes where it makes 0."""


class PlainNumbers:
    """Reads batches of `order`, which mean the resources `targets`."""

    def __init__(self, order: list[bytes], targets: list[str]) -> None:
        self._names = Names(tuple(targets))
        self._order = b"\n".join(order)
        self._ends = len(order) - 1
        self._first = order[0] + b"="
        self._last = b"\n" + order[-1] + b"="
        self._es = sum(map(_count_es, order))
        fields = {f"_{place}": name.decode() for place, name in enumerate(order)}
        kind = msgspec.defstruct(
            "PlainNumbers",
            [(field, float) for field in fields],
            rename=fields.get,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, text: bytes) -> Numbers | None:
        """What the lines of `text` say (the last one without its end).

        None: not that each name has a plain number in its one line. Another order than the usual
        one would be right too, but slow to look up.
        """
        if read_plain is not None:
            doubles = read_plain(text, self._order, len(self._names))
            if doubles is not None:
                return Numbers(self._names, array("d", doubles))
        if b'"' in text or b"\\" in text:
            return None
        usual = text.startswith(self._first) and text.find(self._last, text.rfind(b"\n")) >= 0
        if (not usual and self._ends) or not _short_lines(text):
            return None
        with_colons = text.replace(b"=", b'":')
        names_and_numbers = with_colons.replace(b"\n", b',"')
        if len(names_and_numbers) - len(with_colons) != self._ends:  # quicker than to count
            return None
        try:
            found = self._decoder.decode(b'{"%b}' % names_and_numbers)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        numbers = list(msgspec.structs.astuple(found))
        if self._has_exponents(text) and _ENDLESS.search(text):
            return None
        if b"-" in text:
            numbers = [number + 0.0 for number in numbers]  # -0.0 becomes 0.0
        return Numbers(self._names, numbers)

    def _has_exponents(self, text: bytes) -> bool:
        if self._es == 0:  # to count takes twenty times as long as to find none
            return b"e" in text or b"E" in text
        return _count_es(text) != self._es


def _count_es(text: bytes) -> int:
    """How many letters it has that may begin an exponent."""
    return text.count(b"e") + text.count(b"E")


def _short_lines(text: bytes) -> bool:
    """Whether no line can hold a text that is too long for a value, at a glance."""
    return all(text.find(b"\n", at, at + _STEP) >= 0 for at in range(0, len(text) - _STEP, _STEP))
