"""What rules of roles grant beyond the rules that somebody holds already.

Upstream: component-helpers/auth/rbac/validation and pkg/registry/rbac/validation. A rule there is taken apart
into all its combinations; here only as far as no single rule covers it, and never into very many. Both sides
are a client's to choose, so the loops over them spend from the budget (:mod:`berth.kube.schema.budget`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from typing import NamedTuple

import msgspec

from berth.kube.objects import RawObject
from berth.kube.schema.budget import step, told

EVERYTHING: tuple[RawObject, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
_MOST = 20_000
_TOO_MANY = f"(the rules that are not held as a whole have more than {_MOST} combinations: write fewer)"


class _Rule(NamedTuple):
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]  # none: all
    urls: frozenset[str]

    @classmethod
    def of(cls, rule: RawObject) -> _Rule:
        parts = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(frozenset(rule.get(part) or ()) for part in parts))

    def covers(self, other: _Rule) -> bool:
        """All of another rule; that several cover it together is for others to find out."""
        return (
            all(self.allows(verb) for verb in other.verbs)
            and ("*" in self.groups or other.groups <= self.groups)
            and all(map(self.has_resource, other.resources))
            and (not self.names or (bool(other.names) and other.names <= self.names))
            and all(map(self.has_url, other.urls))
        )

    def allows(self, verb: str) -> bool:
        step()
        return "*" in self.verbs or verb in self.verbs

    def has_resource(self, resource: str) -> bool:
        step()
        part = resource.partition("/")[2]
        return not self.resources.isdisjoint(("*", resource, f"*/{part}" if part else resource))

    def has_url(self, url: str) -> bool:
        return url in self.urls or any(_starts_with(url, own) for own in self.urls)


def _starts_with(url: str, pattern: str) -> bool:
    step()
    return pattern.endswith("*") and url.startswith(pattern.rstrip("*"))


def not_held(held: Iterable[RawObject], granted: Iterable[RawObject]) -> list[str]:
    """What is granted but not held, a line for each resource or path, as the API server words it."""
    owned = set(map(_Rule.of, held))
    apart, combinations = [], 0
    for rule in granted:
        whole = _Rule.of(rule)
        if any(own.covers(whole) for own in owned):
            continue
        in_api = prod((len(whole.groups), len(whole.resources), len(whole.verbs), len(whole.names) or 1))
        combinations += in_api + len(whole.urls) * len(whole.verbs)
        if combinations > _MOST:
            return [_TOO_MANY]
        apart.append(rule)
    paths = chain.from_iterable(_paths(owned, rule) for rule in apart)
    return sorted(set(told(chain(paths, _in_api(owned, apart)), _MOST, len)))


def _in_api(owned: Iterable[_Rule], rules: Iterable[RawObject]) -> Iterator[str]:
    verbs: dict[tuple[str, str, str | None], list[str]] = {}
    for rule in rules:
        for key, missing in _resources(owned, rule):
            verbs.setdefault(key, []).extend(missing)
    for (group, resource, name), missing in verbs.items():
        parts = [("APIGroups", [group]), ("Resources", [resource]), ("Verbs", missing)]
        if name is not None:
            parts.insert(2, ("ResourceNames", [name]))
        yield _described(parts)


def _resources(
    owned: Iterable[_Rule], rule: RawObject
) -> Iterator[tuple[tuple[str, str, str | None], list[str]]]:
    """Group, resource and name, if there are any, with the verbs that nobody covers."""
    verbs: list[str] = rule.get("verbs") or []
    for group in rule.get("apiGroups") or ():
        in_group = [own for own in owned if not own.groups.isdisjoint(("*", group))]
        for resource in rule.get("resources") or ():
            of_resource = [own for own in in_group if own.has_resource(resource)]
            for name in rule.get("resourceNames") or (None,):
                named = [own for own in of_resource if not own.names or name in own.names]
                missing = [verb for verb in verbs if not any(own.allows(verb) for own in named)]
                if missing:
                    yield (group, resource, name), missing


def _paths(owned: Iterable[_Rule], rule: RawObject) -> Iterator[str]:
    for url in rule.get("nonResourceURLs") or ():
        of_url = [own for own in owned if own.has_url(url)]
        for verb in rule.get("verbs") or ():
            if not any(own.allows(verb) for own in of_url):
                yield _described([("NonResourceURLs", [url]), ("Verbs", [verb])])


def _described(parts: Iterable[tuple[str, list[str]]]) -> str:
    return f"{{{', '.join(f'{name}:{listed(words)}' for name, words in parts)}}}"


def listed(words: Iterable[str]) -> str:
    """Words as Go prints a slice of quoted ones."""
    return f"[{' '.join(msgspec.json.encode(word).decode() for word in words)}]"
