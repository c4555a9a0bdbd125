"""CustomResourceDefinitions: what they ask for is checked, accepted and served; and the objects they define.

Upstream: apiextensions-apiserver's defaulting, naming and establishing controllers, which here
are part of the write itself: a definition is served from the moment it is accepted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Self
from urllib.parse import urlsplit

from berth.kube import names
from berth.kube.gates import FeatureGates
from berth.kube.objects import RawObject
from berth.kube.schema import Schema, patterns
from berth.kube.schema.registry import TooManyDefaultsError
from berth.kube.schema.structural import structural_errors
from berth.kube.validation.errors import FieldError
from berth.server import errors
from berth.server.fields import annotations_of, mapping
from berth.server.registry import deletion, writes
from berth.server.registry.checks import (
    FieldErrors,
    has,
    invalid,
    numbered,
    one_of,
    required,
    spec_of,
    unchanged,
)
from berth.server.registry.kinds.custom.columns import columns
from berth.server.registry.strategy import Endpoint, Registry, ServedResource, Strategy, served
from berth.server.settings import OBJECT_LIMIT
from berth.server.storage.bucket import decode
from berth.server.storage.selectors import paths

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_APPROVED = "api-approved.kubernetes.io"
_APPROVAL_RULES = "https://github.com/kubernetes/enhancements/pull/1111"
_GROUP, _PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
# Conditions, their reason where there is a conflict, and reason and message where there is none.
_CONDITIONS = (
    ("NamesAccepted", "NameConflict", "NoConflicts", "no conflicts found"),
    ("Established", "NotAccepted", "InitialNamesAccepted", "the initial names have been accepted"),
)


class DefinitionStrategy(Strategy):
    """What a definition asks for is served as soon as it is accepted, and until its last object has gone."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        named = spec.setdefault("names", {})
        if named.get("kind"):
            named.setdefault("singular", str(named["kind"]).lower())
            named.setdefault("listKind", f"{named['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def final_admission(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        found = [*_problems(obj), *_unstructural(obj, old), *_approval(obj, old)]
        if old is not None:
            found += [*unchanged(obj, old, "spec", "group"), *unchanged(obj, old, "spec", "scope")]
        if found:
            raise errors.invalid(self.resource, obj["metadata"].get("name") or "", found)
        _establish(registry, obj, old)

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        registry.serve_crd(obj)

    def before_delete(self, registry: Registry, obj: RawObject) -> None:
        """Delete the objects of the definition; it waits for those that have finalizers."""
        endpoints = registry.endpoints_of_crd(obj["metadata"]["name"])
        remaining = 0
        for record in endpoints[0].bucket.newest_in("") if endpoints else ():
            held = decode(record.data)
            if held["metadata"].get("finalizers"):
                remaining += 1
                deletion.mark(endpoints[0], held, 0)
                writes.put_as_is(registry, endpoints[0], record.key, held)
            else:
                registry.store.remove(endpoints[0].bucket, record.key, held)
        if not remaining and not _without_cleanup(obj):
            del obj["metadata"]["finalizers"]

    def after_remove(self, registry: Registry, endpoint: Endpoint, obj: RawObject) -> None:
        registry.remove_crd(obj)


GROUP_PRIORITIES = {_GROUP: 16_700}
STRATEGIES = (
    DefinitionStrategy(
        served(
            f"{_GROUP}/v1",
            "CustomResourceDefinition",
            namespaced=False,
            short="crd crds",
            categories="api-extensions",
            subresources="status",
        ),
        needs_version=True,
        status_metadata=(),
    ),
)


@dataclass(eq=False, kw_only=True)
class CustomStrategy(Strategy):
    """An object of a custom resource is defaulted and validated by its schema."""

    custom: ClassVar[bool] = True
    schema: Schema | None

    @classmethod
    def of(cls, resource: ServedResource, crd: RawObject, schema: Schema | None) -> Self:
        """The strategy of one version of a definition."""
        versions = crd["spec"]["versions"]
        version = next(entry for entry in versions if entry.get("name") == resource.version)
        selectable = version.get("selectableFields") or ()
        scale = mapping(version, "subresources", "scale")
        wanted, counted, selector = (
            scale.get(f"{name}Path", "") for name in ("specReplicas", "statusReplicas", "labelSelector")
        )
        return cls(
            resource=resource,
            columns=columns(version.get("additionalPrinterColumns")),
            fields=paths(*(str(item.get("jsonPath", "")).lstrip(".") for item in selectable)),
            scale_paths=(wanted, counted, selector),
            needs_version=True,
            status_metadata=(),
            schema=schema,
            weight=patterns.weight(mapping(version, "schema", "openAPIV3Schema")),
        )

    def begin_status(self, obj: RawObject) -> None:
        obj.pop("status", None)

    def default(self, obj: RawObject) -> None:
        if self.schema is None:
            return
        try:
            self.schema.apply_defaults(obj)
        except TooManyDefaultsError:
            raise errors.too_large(OBJECT_LIMIT) from None

    def validate(self, obj: RawObject, gates: FeatureGates) -> list[FieldError]:
        found = [*self._validate_form(obj, gates), *self._validate_schema(obj)]
        return [*found, *(self.check(obj) if not found else ()), *self._validate_annotations(obj)]

    def _validate_schema(self, obj: RawObject) -> list[FieldError]:
        return self.schema.validate(obj) if self.schema is not None else []

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        return self._validate_schema(obj)

    def after_remove(self, registry: Registry, endpoint: Endpoint, obj: RawObject) -> None:
        _finish(registry, endpoint)

    def from_stored(self, obj: RawObject) -> RawObject:
        obj["apiVersion"] = self.resource.api_version
        return obj


def _finish(registry: Registry, endpoint: Endpoint) -> None:
    """Once the last object of a definition that is being deleted has gone, so does the definition."""
    bucket, key = registry.bucket(_PLURAL, _GROUP), ("", endpoint.resource.name)
    record = bucket.newest(key)
    if record is None or endpoint.bucket.newest_in(""):
        return
    crd = decode(record.data)
    if not crd["metadata"].get("deletionTimestamp"):
        return
    if _without_cleanup(crd):
        registry.store.put(bucket, key, crd)
    else:
        registry.store.remove(bucket, key, crd)
        registry.remove_crd(crd)


def _without_cleanup(crd: RawObject) -> list[str]:
    """Take the finalizer away that stands for the definition's objects; those that are left."""
    kept = [item for item in crd["metadata"].get("finalizers") or () if item != _CLEANUP]
    crd["metadata"]["finalizers"] = kept
    return kept


def _establish(registry: Registry, crd: RawObject, old: RawObject | None) -> None:
    """Give a definition the status that says it is served."""
    spec, now = crd["spec"], registry.timestamp()
    clash = _clash(registry, crd)
    status = dict((old or {}).get("status") or {})
    versions = list(status.get("storedVersions") or ())
    storage = next(entry["name"] for entry in spec["versions"] if entry.get("storage"))
    status["storedVersions"] = versions if storage in versions else [*versions, storage]
    status["acceptedNames"] = spec["names"]
    status["conditions"] = [
        *_conformance(crd, now),
        *(
            _condition(kind, now, *(("False", badly, clash) if clash else ("True", well, text)))
            for kind, badly, well, text in _CONDITIONS
        ),
    ]
    crd["status"] = status
    metadata = crd["metadata"]
    if not metadata.get("deletionTimestamp") and _CLEANUP not in (metadata.get("finalizers") or ()):
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), _CLEANUP]


def _condition(kind: str, now: str, status: str, reason: str, message: str) -> RawObject:
    return {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}


def _conformance(crd: RawObject, now: str) -> list[RawObject]:
    """What is said of the approval of a definition in a group of the community; nothing of others'."""
    kind, given = _approval_of(crd)
    said = {
        "approved": ("True", "ApprovedAnnotation", f"approved in {given}"),
        "bypassed": ("False", "UnapprovedAnnotation", f"not approved: {json.dumps(given)}"),
    }.get(kind)
    if not _is_protected(crd) or said is None:
        return []
    return [_condition("KubernetesAPIApprovalPolicyConformant", now, *said)]


def _is_protected(crd: RawObject) -> bool:
    group = str(crd["spec"].get("group") or "")
    return f".{group}".endswith((".k8s.io", ".kubernetes.io"))


def _clash(registry: Registry, crd: RawObject) -> str:
    """A sentence about another definition of the group that has the same kind."""
    spec = crd["spec"]
    for record in registry.bucket(_PLURAL, _GROUP).newest_in(""):
        if record.key[1] == crd["metadata"]["name"]:
            continue
        other = decode(record.data)["spec"]
        if other.get("group") == spec["group"] and other["names"].get("kind") == spec["names"].get("kind"):
            return f'"{spec["names"]["kind"]}" is already in use'
    return ""


def _problems(crd: RawObject) -> FieldErrors:
    spec, name = crd["spec"], crd["metadata"].get("name")
    group, plural = spec.get("group"), spec["names"].get("plural")
    if not group:
        yield required("spec.group")
    elif messages := names.dns_subdomain_errors(str(group)):
        yield invalid("spec.group", group, "; ".join(messages))
    elif "." not in str(group):
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from has("spec.names", spec["names"], "plural", "kind")
    if name != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from one_of("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"), needed=False)
    versions = spec.get("versions") or []
    if sum(1 for entry in versions if entry.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", [entry.get("name") for entry in versions], detail)
    for path, entry in numbered("spec.versions", versions):
        yield from has(path, entry, "name")
        held = mapping(entry, "schema")
        yield from has(f"{path}.schema", held, "openAPIV3Schema", detail="schemas are required")


def _unstructural(crd: RawObject, old: RawObject | None) -> list[FieldError]:
    """What is wrong with the schemas; one that was wrong before may stay as it was."""
    found = _schema_errors(crd)
    return [] if found and old is not None and _schema_errors(old) else found


def _schema_errors(crd: RawObject) -> list[FieldError]:
    return [
        problem
        for i, entry in enumerate(crd["spec"].get("versions") or ())
        if (schema := mapping(entry, "schema").get("openAPIV3Schema"))
        for problem in structural_errors(schema, f"spec.versions[{i}].schema.openAPIV3Schema")
    ]


def _approval(crd: RawObject, old: RawObject | None) -> FieldErrors:
    """Groups of the community need a word of its approval, or that there is none.

    Upstream: apiextensions-apiserver/pkg/apihelpers.
    """
    kind, given = _approval_of(crd)
    if not _is_protected(crd) or (old is not None and _approval_of(old)[0] == kind):
        return
    detail = f'protected groups must have approval annotation "{_APPROVED}"'
    where = f"metadata.annotations[{_APPROVED}]"
    if kind == "missing":
        yield required(where, f"{detail}, see {_APPROVAL_RULES}")
    elif kind == "invalid":
        detail += ' with either a URL or a reason starting with "unapproved"'
        yield invalid(where, given, f"{detail}, see {_APPROVAL_RULES}")


def _approval_of(crd: RawObject) -> tuple[str, str]:
    """Of which kind the word of approval is, and the word."""
    given = str(annotations_of(crd).get(_APPROVED) or "")
    if not given or given.startswith("unapproved"):
        return "bypassed" if given else "missing", given
    try:
        parts = urlsplit(given)
    except ValueError:
        return "invalid", given
    return "approved" if parts.scheme and parts.netloc else "invalid", given
