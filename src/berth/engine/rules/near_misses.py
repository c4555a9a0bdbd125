"""Words that are nearly what was written: ``zone1`` for ``zone-1``.

Of a label's key it is the name that is compared, not the prefix.  Words with other numbers, or that differ
in their last letter only, are members of a series: ``node-1`` was not meant to be ``node-2``, nor ``zone-a``
to be ``zone-b``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# One slip for so many letters.
_LETTERS_A_SLIP = 4
_SHORTEST = 2
_NUMBERS, _OTHERS = re.compile(r"\d+"), re.compile(r"[\W_]+")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if there is none like it, or it is there itself."""
    words = set(known)
    if word in words:
        return None
    near = {other: slips for other in words if (slips := _slips(word, other)) is not None}
    return min(near, key=lambda other: (near[other], _distance(word, other), other), default=None)


def _slips(one: str, other: str) -> int | None:
    """How many letters of the names differ, None if they are too many to be slips."""
    name, other_name = one.rpartition("/")[2], other.rpartition("/")[2]
    if _numbers(name) != _numbers(other_name):
        return None
    a, b = _letters(name), _letters(other_name)
    if a == b:
        return 0 if a else None
    most = max(len(a), len(b)) // _LETTERS_A_SLIP
    if len(a) != len(b) and min(len(a), len(b)) >= _SHORTEST:
        most = max(most, 1)  # db and dbs: a letter more or less is a slip in short words, too
    if abs(len(a) - len(b)) > most or a[:-1] == b[:-1]:
        return None
    slips = _distance(a, b)
    return slips if slips <= most else None


def _distance(one: str, other: str) -> int:
    """The fewest letters to add, drop, replace, or swap with the next, that make one word the other."""
    before, last = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            found = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and (a, one[i - 2]) == (other[j - 2], b):
                found = min(found, before[j - 2] + 1)
            row.append(found)
        before, last = last, row
    return last[-1]


def _numbers(word: str) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(word)]


def _letters(word: str) -> str:
    return _OTHERS.sub("", _NUMBERS.sub(lambda found: str(int(found[0])), word.lower()))
