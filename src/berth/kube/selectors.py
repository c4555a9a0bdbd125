"""Label selectors and node selectors, parsed once and then only matched.

A parsed selector is hashable and compares by meaning (requirement order does not
matter), so equal selectors written by different pods can share one entry in an index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.kube import names
from berth.kube.amounts.integers import integer
from berth.kube.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PodDisruptionBudget,
    PreferredSchedulingTerm,
)

IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
NOT_A_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
LABEL_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
NODE_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT)

MATCHES_NOTHING = "<nothing>"  # how such a selector is spelt


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Whether an object satisfies this whose label `key` has `value` (None: no such label)."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        if self.operator not in (GT, LT) or len(self.values) != 1:
            return False  # an operator no API server would have let pass
        (operand,) = self.values
        left, right = integer(value), integer(operand)
        if left is None or right is None:
            return False
        return left > right if self.operator == GT else left < right

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case "In":
                return f"{self.key} in ({values})" if len(self.values) > 1 else f"{self.key}={values}"
            case "NotIn":
                return f"{self.key} notin ({values})" if len(self.values) > 1 else f"{self.key}!={values}"
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
        return f"{self.key}{'>' if self.operator == GT else '<'}{values}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements; `nothing` matches no object whatever its requirements."""

    requirements: frozenset[Requirement] = frozenset()
    nothing: bool = False

    @property
    def everything(self) -> bool:
        return not self.nothing and not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        for requirement in self.requirements:
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        return True

    def also(self, requirements: Iterable[Requirement]) -> Selector:
        return Selector(self.requirements | frozenset(requirements), self.nothing)

    def __str__(self) -> str:
        if self.nothing:
            return MATCHES_NOTHING
        return ",".join(sorted(map(str, self.requirements))) or "<everything>"


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def selector_from_labels(labels: Mapping[str, str] | None) -> Selector:
    """Every label equal; no labels select everything."""
    return Selector(frozenset(Requirement(k, IN, frozenset((v,))) for k, v in (labels or {}).items()))


def parse_label_selector(selector: LabelSelector | None) -> Selector:
    """A missing selector matches nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    written = map(_requirement, selector.match_expressions or ())
    return selector_from_labels(selector.match_labels).also(written)


def _requirement(given: LabelSelectorRequirement) -> Requirement:
    return Requirement(given.key or "", given.operator or "", frozenset(given.values or ()))


def selected_keys(selector: LabelSelector | None) -> Iterable[str]:
    """The labels that a selector looks at."""
    if selector is not None:
        yield from selector.match_labels or ()
        yield from (expression.key or "" for expression in selector.match_expressions or ())


def label_requirement(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=list(values) or None)


# --- node selectors -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One term of a node selector: labels and fields must all match.

    A term that upstream cannot parse keeps the parser's sentences in `errors` and matches no node.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.errors:
            return False
        return all(r.matches(labels) for r in self.labels) and all(r.matches_value(name) for r in self.fields)

    def __str__(self) -> str:
        return ",".join([*map(str, self.labels), *(f"field {r}" for r in self.fields)])


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """A node matches if any term does. Empty and null terms were dropped: they match nothing."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)

    def __str__(self) -> str:
        return " or ".join(map(str, self.terms)) or MATCHES_NOTHING


@dataclass(frozen=True, slots=True)
class WeightedNodeTerm:
    weight: int
    term: NodeTerm


def parse_node_selector(selector: NodeSelector | None) -> NodeTerms | None:
    if selector is None:
        return None
    terms = enumerate(selector.node_selector_terms or ())
    kept = ((i, term) for i, term in terms if term is not None and _has_content(term))
    return NodeTerms(tuple(_parse_node_term(term, f"nodeSelectorTerms[{i}]") for i, term in kept))


def parse_preferred_terms(terms: Iterable[PreferredSchedulingTerm] | None) -> tuple[WeightedNodeTerm, ...]:
    """Terms without content or with weight 0 add nothing and are dropped."""
    return tuple(
        WeightedNodeTerm(term.weight, _parse_node_term(term.preference, f"[{i}]"))
        for i, term in enumerate(terms or ())
        if term.weight and term.preference is not None and _has_content(term.preference)
    )


def _has_content(term: NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields)


def _parse_node_term(term: NodeSelectorTerm, path: str) -> NodeTerm:
    errors: list[str] = []
    labels, fields = [], []
    for i, e in enumerate(term.match_expressions or ()):
        found = _expression_errors(e, f"{path}.matchExpressions[{i}]")
        errors += found
        if not found:
            labels.append(_requirement(e))
    for i, e in enumerate(term.match_fields or ()):
        found = _field_errors(e, f"{path}.matchFields[{i}]")
        errors += found
        if not found:
            fields.append(_requirement(e))
    return NodeTerm(tuple(labels), tuple(fields), tuple(errors))


def _invalid(path: str, value: object, message: str) -> str:
    return f"{path}: Invalid value: {json.dumps(value, ensure_ascii=False)}: {message}"


def _unsupported(path: str, value: str, supported: Iterable[str]) -> str:
    known = ", ".join(map(json.dumps, supported))
    return f"{path}: Unsupported value: {json.dumps(value)}: supported values: {known}"


def _expression_errors(e: NodeSelectorRequirement, path: str) -> list[str]:
    operator, values = e.operator or "", e.values or []
    if operator not in NODE_OPERATORS:
        return [_unsupported(f"{path}.operator", operator, NODE_OPERATORS)]
    errors = []
    if bad_key := names.label_key_errors(e.key or ""):
        errors.append(_invalid(f"{path}.key", e.key or "", "; ".join(bad_key)))
    if operator in (IN, NOT_IN) and not values:
        message = "for 'in', 'notin' operators, values set can't be empty"
        errors.append(_invalid(f"{path}.values", values, message))
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        message = "values set must be empty for exists and does not exist"
        errors.append(_invalid(f"{path}.values", values, message))
    if operator in (GT, LT):
        if len(values) != 1:
            message = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(_invalid(f"{path}.values", values, message))
        errors += [
            _invalid(f"{path}.values[{i}]", v, NOT_A_NUMBER)
            for i, v in enumerate(values)
            if integer(v) is None
        ]
    for i, value in enumerate(values):
        if bad_value := names.label_value_errors(value):
            errors.append(_invalid(f"{path}.values[{i}][{e.key or ''}]", value, "; ".join(bad_value)))
    return errors


def _field_errors(e: NodeSelectorRequirement, path: str) -> list[str]:
    operator, values = e.operator or "", e.values or []
    if operator not in (IN, NOT_IN):
        return [_unsupported(f"{path}.operator", operator, (IN, NOT_IN))]
    if len(values) != 1:
        return [_invalid(f"{path}.values", values, "must have one element")]
    return []


def is_guarded(metadata: ObjectMeta, budget: PodDisruptionBudget) -> bool:
    """Whether a budget is about a pod."""
    if budget.metadata.namespace != metadata.namespace:
        return False
    return parse_label_selector(budget.spec.selector).matches(metadata.labels or {})
