"""Names that were probably meant: the one of several that is most like what somebody wrote."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

# How alike two names are that are the same but for a slip, surely the same, or perhaps.
_SLIP, _CERTAIN, _POSSIBLE = 0.9, 0.8, 0.6

# Spellings of the proposals and of people who remember them, by the fields that can be meant.
_MEANT = {
    "selector": ("labelSelector",),
    "nodeLabelSelector": ("nodeSelector",),
    "matchLabels": ("matchExpressions",),
    "nodeSelectorTerm": ("nodeSelectorTerms",),
    "requiredDuringScheduling": ("requiredDuringSchedulingIgnoredDuringExecution",),
    "requiredDuringSchedulingScheduling": ("requiredDuringSchedulingIgnoredDuringExecution",),
    "requiredDuringExecution": ("requiredDuringSchedulingRequiredDuringExecution",),
    "preferredDuringScheduling": ("preferredDuringSchedulingIgnoredDuringExecution",),
    "antiAffinity": ("podAntiAffinity", "workloadAntiAffinity"),
    "spreadConstraints": ("topologySpreadConstraints",),
    "term": ("podAffinityTerm", "preference", "workloadAffinityTerm"),
}


def meant(names: Iterable[str], name: str) -> str | None:
    """The one of some names that an earlier or a half remembered spelling stands for."""
    known = set(names)
    return next((each for each in _MEANT.get(name, ()) if each in known), None)


def slip(names: Iterable[str], name: str) -> str | None:
    """The one of some names that this is but for a letter or so, such as the plural."""
    return _alike(names, name, _SLIP)


def certain(names: Iterable[str], name: str) -> str | None:
    """The one of some names that is surely meant."""
    return _alike(names, name, _CERTAIN)


def possible(names: Iterable[str], name: str) -> str | None:
    """The one of some names that may be meant."""
    return _alike(names, name, _POSSIBLE)


def _alike(names: Iterable[str], name: str, least: float) -> str | None:
    written = name.lower()
    ratio, near = max(
        ((SequenceMatcher(None, written, each.lower()).ratio(), each) for each in names),
        key=lambda found: found[0],
        default=(0.0, ""),
    )
    return near if ratio >= least else None
