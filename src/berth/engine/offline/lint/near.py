"""Words and label keys that were probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable

from berth.engine.rules.relaxing import nearest

_SHORTEST = 3
_numbers = re.compile(r"\d+[a-z]?")


def near_word(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None if there is none like it, or it is known.

    Words that differ in a number, such as the names of zones, are two words and not one with a slip.
    """
    words = sorted(set(known))
    if word in words:
        return None
    others = [other for other in words if _plain(other) == _plain(word) or not _numbered(word, other)]
    found = nearest(word, others)
    return found or next((other for other in others if _one_slip(word, other)), None)


def _plain(word: str) -> str:
    return "".join(filter(str.isalnum, word.lower()))


def _numbered(word: str, other: str) -> bool:
    return _numbers.sub("#", word) == _numbers.sub("#", other)


def _one_slip(word: str, other: str) -> bool:
    """Whether a letter is another one, or two are swapped: in short words that is much of them."""
    if len(word) != len(other) or len(word) < _SHORTEST or not (word + other).isalpha():
        return False
    wrong = [i for i, (a, b) in enumerate(zip(word, other, strict=True)) if a != b]
    if len(wrong) == 1:
        return wrong[0] > 0  # the first letter is the last that people get wrong
    first, last = wrong[0], wrong[-1]
    return len(wrong) == last - first + 1 == len("ab") and word[first] == other[last]


def near_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that was probably meant; None if there is none like it, or it is known.

    Domain and name are compared each by itself: a name is short beside a domain that many keys share.
    """
    keys = sorted(set(known))
    if key in keys:
        return None
    domain, _, name = key.rpartition("/")
    for other in keys:
        its_domain, _, its_name = other.rpartition("/")
        same_domain = domain == its_domain and near_word(name, (its_name,)) is not None
        same_name = bool(domain) and name == its_name and near_word(domain, (its_domain,)) is not None
        if same_domain or same_name:
            return other
    return None
