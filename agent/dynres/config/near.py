"""Finds the word that was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, words: Iterable[str]) -> str | None:
    """`did you mean WORD?` for the closest of `words`; None when none is close."""
    known = list(words)
    folded = {w.lower().replace("-", "_"): w for w in known}
    exact = folded.get(word.lower().replace("-", "_"))
    found = [exact] if exact else get_close_matches(word, known[:5000], n=1, cutoff=0.7)
    return f"did you mean {found[0]}?" if found and found[0] != word else None
