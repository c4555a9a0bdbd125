"""Metadata: names, labels, annotations, owners (apimachinery/pkg/api/validation); and selectors of labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berth.kube import names
from berth.kube.amounts.integers import deletion_cost
from berth.kube.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
)
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, GT, IN, LT, NOT_IN
from berth.kube.validation.errors import Errors, Path, key
from berth.kube.well_known import MIRROR_POD, NODE_NAME_FIELD, POD_DELETION_COST

NameCheck = Callable[[str], list[str]]

ANNOTATIONS_SIZE_LIMIT = 256 * 1024

_METADATA: Path = ("metadata",)


def check_metadata(metadata: ObjectMeta, errors: Errors, *, namespaced: bool, name_check: NameCheck) -> None:
    if metadata.generate_name:
        messages = name_check(_as_prefix(metadata.generate_name))
        errors.invalid_for_each((*_METADATA, "generateName"), metadata.generate_name, messages)
    errors.named((*_METADATA, "name"), metadata.name, name_check, "name or generateName is required")
    if namespaced:
        errors.named((*_METADATA, "namespace"), metadata.namespace, names.dns_label_errors)
    elif metadata.namespace:
        errors.forbidden((*_METADATA, "namespace"), "not allowed on this type")
    if metadata.labels:
        check_labels(metadata.labels, errors, (*_METADATA, "labels"))
    if metadata.annotations:
        check_annotations(metadata.annotations, errors, (*_METADATA, "annotations"))
    if metadata.owner_references:
        _check_owners(metadata.owner_references, errors, (*_METADATA, "ownerReferences"))


def _as_prefix(name: str) -> str:
    # A prefix may end with a dash. Upstream masks its last two characters, not one.
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def check_label_key(name: str, errors: Errors, path: Path) -> None:
    errors.invalid_for_each(path, name, names.label_key_errors(name))


def check_labels(labels: Mapping[str, str], errors: Errors, path: Path) -> None:
    for name, value in labels.items():
        check_label_key(name, errors, path)
        errors.invalid_for_each(path, value, names.label_value_errors(value))


def check_annotations(annotations: Mapping[str, str], errors: Errors, path: Path) -> None:
    size = 0
    for name, value in annotations.items():
        errors.invalid_for_each(path, name, names.label_key_errors(name.lower()))
        size += len(name) + len(value)
    # Bytes count; no character takes more than four of them.
    if size * 4 > ANNOTATIONS_SIZE_LIMIT:
        size = sum(
            len(text.encode("utf-8", "surrogatepass")) for item in annotations.items() for text in item
        )
        if size > ANNOTATIONS_SIZE_LIMIT:
            errors.too_long(path, ANNOTATIONS_SIZE_LIMIT)


def check_pod_annotations(annotations: Mapping[str, str], node_name: str | None, errors: Errors) -> None:
    """The annotations Kubernetes itself gives a meaning on pods."""
    path: Path = (*_METADATA, "annotations")
    if MIRROR_POD in annotations and not node_name:
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid((*path, key(MIRROR_POD)), annotations[MIRROR_POD], detail)
    cost = annotations.get(POD_DELETION_COST)
    if cost is not None and deletion_cost(cost) is None:
        errors.invalid((*path, key(POD_DELETION_COST)), cost, "must be a 32bit integer")


def _check_owners(owners: list[OwnerReference], errors: Errors, path: Path) -> None:
    controller = ""
    for owner in owners:
        if not _version(owner.api_version or ""):
            errors.invalid((*path, "apiVersion"), owner.api_version or "", "version must not be empty")
        for field, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                errors.invalid((*path, field), "", "must not be empty")
        if (owner.api_version, owner.kind) == ("v1", "Event"):
            errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.controller:
            this = f"{owner.kind or ''}/{owner.name or ''}"
            if controller:
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}'
                )
                errors.invalid(path, owners, detail)
            else:
                controller = this


def _version(api_version: str) -> str:
    """The version in ``group/version``; empty if there is none or the text has another form."""
    group, slash, version = api_version.partition("/")
    if "/" in version:
        return ""
    return version if slash else group


# --- selectors ------------------------------------------------------------------------------------

_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_ONE_VALUE = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_ONE_NAME = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
BAD_OPERATOR = "not a valid selector operator"


def check_label_selector(selector: LabelSelector | None, errors: Errors, path: Path) -> None:
    if selector is None:
        return
    if selector.match_labels:
        check_labels(selector.match_labels, errors, (*path, "matchLabels"))
    for i, requirement in enumerate(selector.match_expressions or ()):
        _check_expression(requirement, errors, (*path, "matchExpressions", i))


def _check_expression(
    requirement: LabelSelectorRequirement,
    errors: Errors,
    path: Path,
    *,
    numeric: tuple[str, ...] = (),
    any_value: bool = False,
) -> None:
    """`numeric` operators compare with a number; `any_value`: also one that no label can have."""
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
        errors.invalid((*path, "operator"), operator or "", BAD_OPERATOR)
    check_label_key(requirement.key or "", errors, (*path, "key"))
    for i, value in enumerate(() if any_value else values):
        errors.invalid_for_each((*path, "values", i), value, names.label_value_errors(value))


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
        errors.invalid((*path, "operator"), requirement.operator or "", BAD_OPERATOR)
    elif len(values) != 1:
        errors.required((*path, "values"), _ONE_NAME)
    if requirement.key != NODE_NAME_FIELD:
        errors.invalid((*path, "key"), requirement.key or "", "not a valid field selector key")
        return
    for i, name in enumerate(values):
        errors.invalid_for_each((*path, "values", i), name, names.dns_subdomain_errors(name))
