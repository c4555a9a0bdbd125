"""The limit on required anti-affinity: how much of a cluster one pod may keep others out of.

The pod-affinity design limits rules against pods of *all* namespaces to single nodes.  A rule is against
all of them if its namespaceSelector matches whatever namespace somebody makes next: one that has no label
but its name, and a name that the selector does not know.  Kubernetes' own admission plugin,
LimitPodHardAntiAffinityTopology, limits every rule; that is the stricter choice here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.objects import Affinity, LabelSelector, LabelSelectorRequirement, PodAffinityTerm
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, NOT_IN, parse_label_selector
from berth.kube.well_known import HOSTNAME

_EVERYWHERE = "required anti-affinity against pods of all namespaces"
_WHY = "it would keep every other workload out of the whole domain"

_encoder = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiAffinityLimit:
    """How far required anti-affinity may reach."""

    topology_keys: tuple[str, ...] = (HOSTNAME,)  # those that a required rule may have
    every_rule: bool = False  # whether rules against pods of some namespaces are limited, too


DEFAULT_LIMIT = AntiAffinityLimit()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """The limit, and the users and groups that it does not bind (the capability of the design document)."""

    limit: AntiAffinityLimit | None = DEFAULT_LIMIT  # None for no limit
    exempt: frozenset[str] = frozenset()  # namespaces without one
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def limit_for(self, namespace: str, user: str, groups: Collection[str]) -> AntiAffinityLimit | None:
        """The limit for what a user writes in a namespace."""
        trusted = namespace in self.exempt or user in self.users or not self.groups.isdisjoint(groups)
        return None if trusted else self.limit


DEFAULT_POLICY = AdmissionPolicy()


def excesses(
    affinity: Affinity | None,
    path: str,
    limit: AntiAffinityLimit = DEFAULT_LIMIT,
    known: Collection[bytes] = frozenset(),
) -> Iterator[tuple[str, str]]:
    """Where required anti-affinity goes beyond the limit: the path of the rule, and what to do about it.

    `known` are the `rules_of` an object from before the limit: what it had it may keep.
    """
    for where, term in required_terms(affinity, path):
        if term.topology_key in limit.topology_keys or (known and _encoder.encode(term) in known):
            continue
        if matches_any_namespace(term.namespace_selector):
            yield where, f"{_EVERYWHERE} ({_spelled(term)}) must have {_wanted(term, limit)}: {_WHY}"
        elif limit.every_rule:
            yield where, f"required anti-affinity must have {_wanted(term, limit)}"


def rules_of(affinity: Affinity | None) -> frozenset[bytes]:
    """The required anti-affinity terms, to tell whether one was there before."""
    return frozenset(_encoder.encode(term) for _, term in required_terms(affinity))


def _wanted(term: PodAffinityTerm, limit: AntiAffinityLimit) -> str:
    keys = " or ".join(f'"{key}"' for key in limit.topology_keys)
    return f'topologyKey {keys}, not "{term.topology_key or ""}"'


def matches_any_namespace(selector: LabelSelector | None) -> bool:
    """Whether a namespaceSelector matches namespaces that it neither names nor asks a label of."""
    if selector is None or selector.match_labels:
        return False
    return all(_lets_any_namespace_pass(each) for each in selector.match_expressions or ())


def _lets_any_namespace_pass(requirement: LabelSelectorRequirement) -> bool:
    """A new namespace has no label but its name: excluding a few names, or other labels, lets it pass."""
    if requirement.operator == NOT_IN:
        return True
    return requirement.operator == (EXISTS if requirement.key == NAMESPACE_NAME_LABEL else DOES_NOT_EXIST)


def _spelled(term: PodAffinityTerm) -> str:
    selector = parse_label_selector(term.namespace_selector)
    return "namespaceSelector: {}" if selector.everything else f"namespaceSelector {selector} matches any"


def required_terms(affinity: Affinity | None, path: str = "") -> Iterator[tuple[str, PodAffinityTerm]]:
    """The required anti-affinity terms, each with its path."""
    anti = affinity.pod_anti_affinity if affinity is not None else None
    for name, terms in anti.required if anti is not None else ():
        for i, term in enumerate(terms or ()):
            yield f"{path}.podAntiAffinity.{name}[{i}]", term
