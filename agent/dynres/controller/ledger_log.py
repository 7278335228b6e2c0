"""Finds damage in the ledger's write-ahead log, which SQLite itself takes for the log's end.

Each frame's checksum goes on from the one before it. A frame that does not fit its own is where a
crash has cut the log, or it is damage; SQLite drops it, with all that follows, without a word.
After a cut nothing is left but the rest of one transaction, because the next one is written only
when that is on the disk. So two commits in an unbroken run of frames behind a bad one are damage.
"""

from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

HEADER: Final = 32
FRAME: Final = 24
"""Bytes before the page in a frame: page, size of the file after a commit, salts, checksum."""
MAGIC: Final = {0x377F0682: "<u4", 0x377F0683: ">u4"}
"""How a log begins, and the order of bytes that its checksums are made in."""
AT_ONCE: Final = 1024
"""Frames that are looked at together."""

Words = npt.NDArray[np.uint32]


def log_damage(path: Path) -> str | None:
    """What is wrong with the log at `path`; None: nothing, or it is not there. Raises OSError."""
    if not path.exists() or path.stat().st_size <= HEADER:
        return None
    with path.open("rb") as file:
        head = file.read(HEADER)
        words = np.frombuffer(head, ">u4").astype(np.uint32)
        order = MAGIC.get(int(words[0]))
        page = int(words[2])
        good = order is not None and 512 <= page <= 65536 and page % 8 == 0
        if order is None or not good or not _fits(head[:24], words[6:], order):
            return "its log begins with no header" if _anything(file, head) else None
        return _cut(file, words, page, order)


def _anything(file: BinaryIO, head: bytes) -> bool:
    """Whether there is something else than zeros, which are a log that was never begun."""
    block = head
    while block:
        if any(block):
            return True
        block = file.read(1 << 20)
    return False


def _fits(data: bytes, stored: Words, order: str) -> bool:
    made = _sums(np.frombuffer(data, order).reshape(1, -1), np.zeros((1, 2), np.uint32))
    return bool((made[0] == stored).all())


def _sums(data: npt.NDArray[np.generic], before: Words) -> Words:
    """The checksum of each row of words, going on from the one in `before`."""
    columns = np.ascontiguousarray(data.T, dtype=np.uint32)
    first, second = before[:, 0].copy(), before[:, 1].copy()
    for at in range(0, len(columns), 2):
        first += columns[at] + second
        second += columns[at + 1] + first
    return np.stack((first, second), axis=1)


def _cut(file: BinaryIO, head: Words, page: int, order: str) -> str | None:
    """Look for a bad frame, then for two commits in an unbroken run behind it."""
    size = FRAME + page
    before, salts = head[6:].reshape(1, 2), head[4:6]
    bad, number, commits = None, 0, 0
    while count := len(block := file.read(size * AT_ONCE)) // size:
        frames = np.frombuffer(block, np.uint8, count * size).reshape(count, size)
        fields = frames[:, :FRAME].copy().view(">u4").astype(np.uint32)
        words = np.concatenate((frames[:, :8], frames[:, FRAME:]), axis=1).view(order)
        stored = fields[:, 4:6]
        made = _sums(words, np.concatenate((before, stored[:-1])))
        fits = (made == stored).all(axis=1) & (fields[:, 2:4] == salts).all(axis=1)
        for good, ends in zip(fits.tolist(), (fields[:, 1] != 0).tolist(), strict=True):
            number += 1
            commits = commits + ends if good else 0
            if bad is None:
                bad = None if good else number
                commits = 0
            elif commits == 2:
                return f"frame {bad} of its log does not fit its checksum, and more were committed"
        before = stored[-1:]
    return None
