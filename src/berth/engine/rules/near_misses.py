"""Words that are nearly what was written: ``zone1`` for ``zone-1``."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_CLOSE = 0.8


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if there is none like it, or it is there itself."""
    words = sorted(set(known))
    if word in words:
        return None
    plain = _letters(word)
    same = next((other for other in words if _letters(other) == plain), None)
    return same or next(iter(get_close_matches(word, words, n=1, cutoff=_CLOSE)), None)


def _letters(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum())
