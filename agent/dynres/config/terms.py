"""Reads one term of a location, a group or a host's name into host names, or the fault with it."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from dynres.config.faults import Fault
from dynres.config.hosts import TermError, expand, fold
from dynres.config.model import Place
from dynres.config.names import KEYWORDS, is_host_name
from dynres.config.near import nearest

SHOWN: Final = 100
"""Most names that one message spells out."""

HINTS: Final = 25
"""Most near misses that are looked for in one folder: each one compares thousands of names."""


class Term(Protocol):
    """One piece of text of a file (`config.scalars.Scalar` is one)."""

    @property
    def text(self) -> str:
        """The text as written."""
        ...

    @property
    def place(self) -> Place:
        """Where it stands."""
        ...

    @property
    def plain(self) -> bool:
        """Whether it was written without quotes."""
        ...


class Expander:
    """Expands terms; a text that comes again gives the same tuple."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...] | TermError] = {}

    def hosts(self, term: Term, body: str) -> tuple[str, ...] | Fault:
        """The names that `body`, the term without its `~`, stands for."""
        known = self._known.get(body)
        if known is None:
            try:
                known = tuple(expand(body))
            except TermError as error:
                known = error
            self._known[body] = known
        return known if isinstance(known, tuple) else _unreadable(term, known)


class NearMisses:
    """Finds what was probably meant by an unknown name, within a bound on work."""

    def __init__(self) -> None:
        self._left = HINTS

    def hint(self, word: str, words: Iterable[str]) -> str | None:
        """`did you mean WORD?`, or None."""
        if self._left <= 0:
            return None
        self._left -= 1
        return nearest(word, words)


def _unreadable(term: Term, error: TermError) -> Fault:
    quote = term.plain and (not term.text or term.text[0] in "~[]{},@" or "," in term.text)
    return Fault(
        place=term.place,
        what=f"not a host term: {error}",
        expected="a name with bracket ranges, @GROUP, all, default, others or ~TERM",
        got=shown(term.text),
        hint=error.hint or ("quote it if it is text" if quote else None),
    )


def shown(text: str) -> str:
    """A term in a message: quoted, cut when it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def listed(hosts: Sequence[str]) -> str:
    """Host names in a message: folded, cut when there are many."""
    more = len(hosts) - SHOWN
    return fold(hosts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def group_of(term: Term, body: str) -> str | Fault:
    """The group that `@NAME` names."""
    name = body[1:]
    if is_host_name(name):
        return name
    return Fault(
        place=term.place,
        what="not the name of a group",
        expected="@ and letters, digits, '.', '-', '_'",
        got=shown(body),
        hint=f"write {name} without the @" if name in KEYWORDS else None,
    )


def keyword_fault(place: Place, word: str, what: str) -> Fault:
    """The fault for `all`, `default` or `others` where a name belongs."""
    words = ", ".join(sorted(KEYWORDS))
    return Fault(
        place=place,
        what=f"{word!r} cannot be {what}",
        expected=f"another name ({words} are words of a location)",
        got=word,
    )
