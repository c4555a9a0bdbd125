"""Label selectors and node selectors."""

from __future__ import annotations

from berth.kube import names
from berth.kube.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, GT, IN, LT, NOT_IN
from berth.kube.validation.errors import Errors, Path
from berth.kube.validation.metadata import check_label_key, check_labels
from berth.kube.well_known import NODE_NAME_FIELD

_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_ONE_VALUE = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_ONE_NAME = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
_BAD_OPERATOR = "not a valid selector operator"


def check_label_selector(selector: LabelSelector | None, errors: Errors, path: Path) -> None:
    if selector is None:
        return
    if selector.match_labels:
        check_labels(selector.match_labels, errors, (*path, "matchLabels"))
    for i, requirement in enumerate(selector.match_expressions or ()):
        _check_expression(requirement, errors, (*path, "matchExpressions", i))


def _check_expression(
    requirement: LabelSelectorRequirement | NodeSelectorRequirement,
    errors: Errors,
    path: Path,
    *,
    numeric: tuple[str, ...] = (),
    any_value: bool = False,
) -> None:
    """`numeric` operators compare with a number; `any_value`: also one that no label can have."""
    _check_operator(requirement, errors, path, numeric)
    check_label_key(requirement.key or "", errors, (*path, "key"))
    for i, value in enumerate(() if any_value else requirement.values or ()):
        errors.invalid_for_each((*path, "values", i), value, names.label_value_errors(value))


def _check_operator(
    requirement: LabelSelectorRequirement | NodeSelectorRequirement,
    errors: Errors,
    path: Path,
    numeric: tuple[str, ...],
) -> None:
    """An operator there is, with as many values as it takes."""
    operator, values = requirement.operator, requirement.values or []
    if operator in (IN, NOT_IN):
        if not values:
            errors.required((*path, "values"), _NEEDS_VALUES)
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            errors.forbidden((*path, "values"), _NO_VALUES)
    elif operator in numeric:
        if len(values) != 1:
            errors.required((*path, "values"), _ONE_VALUE)
    else:
        errors.invalid((*path, "operator"), operator or "", _BAD_OPERATOR)


def check_node_selector(selector: NodeSelector, errors: Errors, path: Path) -> None:
    terms = selector.node_selector_terms
    path = (*path, "nodeSelectorTerms")
    if not terms:
        errors.required(path, "must have at least one node selector term")
        return
    for i, term in enumerate(terms):
        if term is not None:
            check_node_selector_term(term, errors, (*path, i), any_label_value=False)


def check_node_selector_term(
    term: NodeSelectorTerm, errors: Errors, path: Path, *, any_label_value: bool
) -> None:
    """`any_label_value`: preferred terms may compare with values that no label can have."""
    for i, requirement in enumerate(term.match_expressions or ()):
        where = (*path, "matchExpressions", i)
        _check_expression(requirement, errors, where, numeric=(GT, LT), any_value=any_label_value)
    for i, requirement in enumerate(term.match_fields or ()):
        _check_field(requirement, errors, (*path, "matchFields", i))


def _check_field(requirement: NodeSelectorRequirement, errors: Errors, path: Path) -> None:
    values = requirement.values or []
    if requirement.operator not in (IN, NOT_IN):
        errors.invalid((*path, "operator"), requirement.operator or "", _BAD_OPERATOR)
    elif len(values) != 1:
        errors.required((*path, "values"), _ONE_NAME)
    if requirement.key != NODE_NAME_FIELD:
        errors.invalid((*path, "key"), requirement.key or "", "not a valid field selector key")
        return
    for i, name in enumerate(values):
        errors.invalid_for_each((*path, "values", i), name, names.dns_subdomain_errors(name))
