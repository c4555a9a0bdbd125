"""What was probably meant: the known name, word or label key that is most like the written one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import partial

from berth.kube.well_known import (
    PREFERRED_DURING_SCHEDULING,
    REQUIRED_DURING_EXECUTION,
    REQUIRED_DURING_SCHEDULING,
)

# --- names of fields and kinds: the one of several that is most like what somebody wrote -------------

_POSSIBLE = 0.6  # how alike two names are that are perhaps the same

# Other spellings, such as those of older proposals, and the fields that they may mean.
_MEANT = {
    "selector": ("labelSelector",),
    "nodeLabelSelector": ("nodeSelector",),
    "matchLabels": ("matchExpressions",),
    "nodeSelectorTerm": ("nodeSelectorTerms",),
    "requiredDuringScheduling": (REQUIRED_DURING_SCHEDULING,),
    "requiredDuringSchedulingScheduling": (REQUIRED_DURING_SCHEDULING,),
    "requiredDuringExecution": (REQUIRED_DURING_EXECUTION,),
    "preferredDuringScheduling": (PREFERRED_DURING_SCHEDULING,),
    "antiAffinity": ("podAntiAffinity", "workloadAntiAffinity"),
    "spreadConstraints": ("topologySpreadConstraints",),
    "term": ("podAffinityTerm", "preference", "workloadAffinityTerm"),
}


def meant(names: Iterable[str], name: str) -> str | None:
    """The one of some names that an earlier or a half remembered spelling stands for."""
    known = set(names)
    return next((each for each in _MEANT.get(name, ()) if each in known), None)


def _alike(least: float, names: Iterable[str], name: str) -> str | None:
    """The one of some names that is most like what was written, if it is so much like it."""

    def likeness(known: str) -> float:
        return SequenceMatcher(None, name.lower(), known.lower()).ratio()

    return max((each for each in names if likeness(each) >= least), key=likeness, default=None)


slip = partial(_alike, 0.9)  # the one that this is but for a letter or so, such as the plural
certain = partial(_alike, 0.8)  # that is surely meant
possible = partial(_alike, _POSSIBLE)  # that may be meant


def most_alike(name: str, names: Iterable[str], most: int = 1) -> list[str]:
    """Up to so many of the names that may be meant, the most alike first."""
    return get_close_matches(name, names, n=most, cutoff=_POSSIBLE)


# --- words that are nearly what was written: ``zone1`` for ``zone-1`` ------------------------------
# Of a label's key it is the name that is compared, not the prefix.  Words with other numbers, or that
# differ in their last letter only, are members of a series: ``node-1`` was not meant to be ``node-2``,
# nor ``zone-a`` to be ``zone-b``.

# One slip for so many letters.
_LETTERS_A_SLIP = 4
_SHORTEST, _SHORTEST_ALIKE = 2, 3
_NUMBERS, _OTHERS, _NUMBERED = re.compile(r"\d+"), re.compile(r"[\W_]+"), re.compile(r"\d+[a-z]?")


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
    return _NUMBERED.sub("#", word) == _NUMBERED.sub("#", other)


def _one_slip(word: str, other: str) -> bool:
    """Whether a letter is another one, or two are swapped: in short words that is much of them."""
    if len(word) != len(other) or len(word) < _SHORTEST_ALIKE or not (word + other).isalpha():
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
