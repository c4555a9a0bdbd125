"""CustomResourceDefinitions: names, conditions, and what they lack filled in.

Upstream: apiextensions-apiserver's defaulting, naming and establishing controllers, which here
are part of the write itself: a definition is served from the moment it is accepted.
"""

from __future__ import annotations

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry.core import Core
from berth.server.storage.store import decode

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_GROUP, _KIND = "apiextensions.k8s.io", "CustomResourceDefinition"
_INVALID, _REQUIRED = "FieldValueInvalid", "FieldValueRequired"


def prepare(crd: RawObject) -> None:
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        spec = crd["spec"] = {}
    named = spec.setdefault("names", {})
    if named.get("kind"):
        named.setdefault("singular", str(named["kind"]).lower())
        named.setdefault("listKind", f"{named['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def accept(core: Core, crd: RawObject, old: RawObject | None = None) -> None:
    """Judge a definition and give it the status that says it is served.

    Raises:
        StatusError: it cannot be served (422).
    """
    found = [*_problems(crd), *_changes(crd, old)]
    if found:
        raise errors.invalid(_KIND, _GROUP, crd["metadata"].get("name") or "", found)
    spec, now = crd["spec"], core.timestamp()
    clash = _clash(core, crd)
    status = dict((old or {}).get("status") or {})
    versions = list(status.get("storedVersions") or ())
    storage = next(entry["name"] for entry in spec["versions"] if entry.get("storage"))
    status["storedVersions"] = versions if storage in versions else [*versions, storage]
    status["acceptedNames"] = spec["names"]
    status["conditions"] = [
        _condition("NamesAccepted", clash, now, ("NoConflicts", "no conflicts found"), "NameConflict"),
        _condition(
            "Established",
            clash,
            now,
            ("InitialNamesAccepted", "the initial names have been accepted"),
            "NotAccepted",
        ),
    ]
    crd["status"] = status
    metadata = crd["metadata"]
    if not metadata.get("deletionTimestamp") and CLEANUP not in (metadata.get("finalizers") or ()):
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]


def _condition(kind: str, clash: str, now: str, well: tuple[str, str], badly: str) -> RawObject:
    reason, message = (badly, clash) if clash else well
    return {
        "type": kind,
        "status": "False" if clash else "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _clash(core: Core, crd: RawObject) -> str:
    """A sentence about another definition of the group that has the same kind."""
    spec = crd["spec"]
    bucket = core.catalog.builtin(_GROUP, "customresourcedefinitions").bucket
    for record in bucket.newest_in(""):
        if record.key[1] == crd["metadata"]["name"]:
            continue
        other = decode(record.data)["spec"]
        if other.get("group") == spec["group"] and other["names"].get("kind") == spec["names"].get("kind"):
            return f'"{spec["names"]["kind"]}" is already in use'
    return ""


def _problems(crd: RawObject) -> list[FieldError]:
    spec, found = crd["spec"], []
    group, plural = spec.get("group"), spec["names"].get("plural")
    if not group:
        found.append(FieldError("spec.group", _REQUIRED))
    elif messages := names.dns_subdomain_errors(str(group)):
        found.append(FieldError("spec.group", _INVALID, "; ".join(messages), group))
    elif "." not in str(group):
        found.append(FieldError("spec.group", _INVALID, "should be a domain with at least one dot", group))
    found += [
        FieldError(f"spec.names.{field}", _REQUIRED)
        for field in ("plural", "kind")
        if not spec["names"].get(field)
    ]
    if crd["metadata"].get("name") != f"{plural}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        found.append(FieldError("metadata.name", _INVALID, detail, crd["metadata"].get("name")))
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        detail = 'supported values: "Cluster", "Namespaced"'
        found.append(FieldError("spec.scope", "FieldValueNotSupported", detail, spec.get("scope") or ""))
    versions = spec.get("versions") or []
    if sum(1 for entry in versions if entry.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        found.append(FieldError("spec.versions", _INVALID, detail, [entry.get("name") for entry in versions]))
    for i, entry in enumerate(versions):
        path = f"spec.versions[{i}]"
        if not entry.get("name"):
            found.append(FieldError(f"{path}.name", _REQUIRED))
        if not (entry.get("schema") or {}).get("openAPIV3Schema"):
            found.append(FieldError(f"{path}.schema.openAPIV3Schema", _REQUIRED, "schemas are required"))
    return found


def _changes(crd: RawObject, old: RawObject | None) -> list[FieldError]:
    if old is None:
        return []
    return [
        FieldError(f"spec.{name}", _INVALID, "field is immutable", crd["spec"].get(name))
        for name in ("group", "scope")
        if crd["spec"].get(name) != old["spec"].get(name)
    ]
