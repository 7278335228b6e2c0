"""Finds the word that was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SPELLED: Final = 20


def closest(word: str, words: Iterable[str]) -> str | None:
    """The closest of `words`; None when none is close."""
    known = list(words)
    folded = {w.lower().replace("-", "_"): w for w in known}
    exact = folded.get(word.lower().replace("-", "_"))
    found = [exact] if exact else get_close_matches(word, known[:5000], n=1, cutoff=0.7)
    return found[0] if found and found[0] != word else None


def nearest(word: str, words: Iterable[str]) -> str | None:
    """`did you mean WORD?` for the closest of `words`; None when none is close."""
    found = closest(word, words)
    return f"did you mean {found}?" if found else None


def several(words: Iterable[str]) -> str:
    """The words, separated by commas; of many only the first."""
    known = list(words)
    more = len(known) - SPELLED
    return ", ".join(known[:SPELLED]) + (f" and {more} more" if more > 0 else "")
