"""Decides which spellings of a host name are one host, and how names sort; never asks DNS."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

KEYWORDS: Final = frozenset({"all", "default", "others"})
"""Words of a location, and therefore never the name of a host or a group."""

NAME_LIMIT: Final = 253
"""Longest host name, in characters."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)
_DIGITS = re.compile(r"([0-9]+)")


class AmbiguousError(ValueError):
    """A short name that begins two full names: `name` is meant for one of `full`."""

    def __init__(self, name: str, full: Iterable[str]) -> None:
        self.name = name
        self.full = tuple(sorted(full, key=host_key))
        super().__init__(f"{name} may be {' or '.join(self.full)}: write the full name")


def is_host_name(text: str) -> bool:
    """Whether `text` may name a host: letters, digits, `.`, `-`, `_`, and not a keyword."""
    return _NAME.fullmatch(text) is not None and text not in KEYWORDS


def host_key(name: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Sort key that puts names in the order of ClusterShell's NodeSet: `h2` before `h10`.

    Equal to NodeSet's own order for names with one number, and for whole products of ranges; where
    several numbers vary and some combinations are missing NodeSet sorts by how the set folds.
    """
    parts = _DIGITS.split(name)
    if len(parts) == 1:
        return name, ()
    # "%s" is the hole that NodeSet leaves for a number; it decides how patterns sort.
    return "%s".join(parts[::2]), tuple((len(digits), digits) for digits in parts[1::2])


class Names:
    """The known hosts, each under its canonical name.

    `h1` and `h1.x` are one host when exactly one full name begins with `h1.`. The canonical name
    is the one that is known; where both are, the full one.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._full: dict[str, list[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Make `name` known, as it is spelled."""
        if name in self._known:
            return
        self._known.add(name)
        short, dot, _ = name.partition(".")
        if dot:
            self._full.setdefault(short, []).append(name)

    def canonical(self, name: str) -> str | None:
        """The known host that `name` means; None for an unknown one. Raises AmbiguousError."""
        short, dot, _ = name.partition(".")
        full = self._full.get(short, ())
        if dot:
            if name in self._known:
                return name
            return short if short in self._known and not full else None
        if len(full) > 1:
            raise AmbiguousError(name, full)
        if full:
            return full[0]
        return name if name in self._known else None

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
