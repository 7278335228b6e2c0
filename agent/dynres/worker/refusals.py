"""The values of one run that were not taken, bounded in number and length, fit to be shown."""

from typing import Final

from dynres.worker.outcome import Refused
from dynres.worker.pairs import Pair

REFUSED_LIMIT: Final = 50
"""How many refusals of one run are kept one by one."""
SHOWN: Final = 80
"""How much of a refused text is kept, in characters."""
UNAVAILABLE: Final = "-"
"""What a probe prints, and a view shows, where there is no value."""


class Refusals:
    """The refusals of one run, bounded in number and in length."""

    def __init__(self) -> None:
        self.kept: list[Refused] = []
        self.more = 0

    def add(self, pair: Pair, reason: str) -> None:
        """Keep one refusal, or count it."""
        if len(self.kept) >= REFUSED_LIMIT:
            self.more += 1
            return
        self.kept.append(
            Refused(
                shown(pair.name), shown(UNAVAILABLE if pair.text is None else pair.text), reason
            )
        )

    def all(self) -> tuple[Refused, ...]:
        """Every refusal that was kept, and one that counts the rest."""
        rest = [Refused("", "", f"{self.more} more were refused")] if self.more else []
        return tuple(self.kept + rest)


def shown(text: str) -> str:
    """A text from a probe as a log or a table may show it: short, printable, valid UTF-8."""
    plain = "".join(c if c.isprintable() else _escaped(ord(c)) for c in text[: SHOWN + 1])
    return plain if len(plain) <= SHOWN else plain[: SHOWN - 1] + "…"


def _escaped(code: int) -> str:
    if code < 0x100 or 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}"
