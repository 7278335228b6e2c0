"""Format `elim` (LSF): a record is one line, a count and as many names and values."""

from typing import Final

from dynres.worker.line_formats import lines_of, text_pair
from dynres.worker.merging import newest
from dynres.worker.pairs import Asked, Pair, decode

NOT_HERE_STATUS: Final = 97
"""Exit status of an elim that does not apply to this host; it finds it in ELIM_ABORT_VALUE."""
_LONGEST_COUNT: Final = 6


def elim_pairs(body: bytes, asked: Asked) -> list[Pair]:
    """`elim`: each line a record; the newest of each name counts."""
    return newest((elim_record(line) for line in lines_of(body)), asked)


def elim_record(line: bytes) -> list[Pair]:
    """What one record says; a record that is not complete says nothing, with the reason."""
    count, *words = line.split() or [b""]
    if not (count.isdigit() and len(count) <= _LONGEST_COUNT):
        return [_no_record(line, "expected a count, then names and values")]
    if len(words) != 2 * int(count):
        pairs = f"{len(words) / 2:g} name and value pairs"
        return [_no_record(line, f"the record says {int(count)} and has {pairs}")]
    return [
        text_pair(decode(name), text) for name, text in zip(words[::2], words[1::2], strict=True)
    ]


def _no_record(line: bytes, fault: str) -> Pair:
    return Pair(name="", text=decode(line), fault=fault)
