"""Object metadata: names, labels, annotations, owners (apimachinery/pkg/api/validation)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from berth.kube import names
from berth.kube.objects import ObjectMeta, OwnerReference
from berth.kube.selectors import parse_int64
from berth.kube.validation.errors import Errors, Path, key
from berth.kube.well_known import MIRROR_POD, POD_DELETION_COST

NameCheck = Callable[[str], list[str]]

ANNOTATIONS_SIZE_LIMIT = 256 * 1024

_METADATA: Path = ("metadata",)
_deletion_cost = re.compile(r"0|[1-9][0-9]*|-[0-9]+").fullmatch


def check_metadata(metadata: ObjectMeta, errors: Errors, *, namespaced: bool, name_check: NameCheck) -> None:
    if metadata.generate_name:
        messages = name_check(_as_prefix(metadata.generate_name))
        errors.invalid_for_each((*_METADATA, "generateName"), metadata.generate_name, messages)
    if not metadata.name:
        errors.required((*_METADATA, "name"), "name or generateName is required")
    else:
        errors.invalid_for_each((*_METADATA, "name"), metadata.name, name_check(metadata.name))
    _check_namespace(metadata.namespace, errors, namespaced)
    if metadata.labels:
        check_labels(metadata.labels, errors, (*_METADATA, "labels"))
    if metadata.annotations:
        check_annotations(metadata.annotations, errors, (*_METADATA, "annotations"))
    if metadata.owner_references:
        _check_owners(metadata.owner_references, errors, (*_METADATA, "ownerReferences"))


def _as_prefix(name: str) -> str:
    # A prefix may end with a dash. Upstream masks its last two characters, not one.
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def _check_namespace(namespace: str | None, errors: Errors, namespaced: bool) -> None:
    if not namespaced:
        if namespace:
            errors.forbidden((*_METADATA, "namespace"), "not allowed on this type")
    elif not namespace:
        errors.required((*_METADATA, "namespace"))
    else:
        errors.invalid_for_each((*_METADATA, "namespace"), namespace, names.dns_label_errors(namespace))


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
    if cost is not None and not _is_deletion_cost(cost):
        errors.invalid((*path, key(POD_DELETION_COST)), cost, "must be a 32bit integer")


def _is_deletion_cost(text: str) -> bool:
    number = parse_int64(text) if _deletion_cost(text) else None
    return number is not None and -(2**31) <= number < 2**31


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
