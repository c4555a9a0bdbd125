"""Manifests sorted into what a fleet is made of: clusters, policies, bindings and workloads.

An object without a uid has not been through an API server: it gets Karmada's defaults and checks here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from berth.fleet.offline.inventory import Inventory, Template
from berth.kube.amounts import quantity
from berth.kube.api_resources import CLUSTER_BINDINGS, VIEWS, Resource
from berth.kube.karmada import (
    CLUSTER_GROUP,
    POLICY_GROUP,
    WORK_GROUP,
    Binding,
    LivePolicy,
    MemberCluster,
    PropagationPolicy,
)
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import DEFAULT_NAMESPACE, Manifest, ManifestError
from berth.kube.manifests.manifest import title as titled
from berth.kube.objects import Key, Namespace, PartialObjectMetadata, PriorityClass, RawObject
from berth.kube.schema import Schema, SchemaRegistry
from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.kube.validation.errors import FieldError
from berth.kube.validation.placement import validate_annotated, validate_placement, validate_policy
from berth.server.registry import kinds as served_kinds
from berth.server.registry.kinds.custom.karmada import (
    cluster_problems,
    definitions,
    prepare_cluster,
    prepare_policy,
)

_T = TypeVar("_T")

# Manifests may name these kinds in another version, or in none.
_BUILT_IN = {(api, resource.kind): resource for resource in VIEWS for api in (resource.api_version, "")}
# Kinds without a namespace: what the embedded server has of them, and others of a cluster.
_CLUSTER_SCOPED = {each.resource.kind for each in served_kinds.STRATEGIES if not each.resource.namespaced} | {
    "APIService",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def karmada_schemas() -> dict[tuple[str, str], Schema]:
    """What Karmada's kinds may hold, as `berth up` serves them, by apiVersion and kind."""
    registry = SchemaRegistry()
    for definition in definitions():
        registry.add_crd(definition)
    return registry.custom()


def sort(manifests: Iterable[Manifest]) -> Inventory:
    """Take everything in.

    Raises:
        ManifestError: something cannot be read, would be refused, or is there twice.
    """
    given = list(manifests)
    scopes = dict(filter(None, map(_scope, given)))
    found = Inventory()
    seen: dict[tuple[str, str, Key], Manifest] = {}
    for manifest in given:
        group = kinds.group_of(manifest.api_version)
        raw = manifest.to_dict()
        if raw is manifest.raw:
            raw = copy.deepcopy(raw)  # defaults are filled in below
        key = _key(manifest, raw, namespaced=_is_namespaced(manifest, group, scopes))
        first = seen.setdefault((group, manifest.kind, key), manifest)
        if first is not manifest:
            what = titled(manifest.kind, *key)
            raise ManifestError(f"{what} is there twice: in {first.source} and in {manifest.source}")
        _take(found, manifest, group, key, raw)
    return found


def _scope(manifest: Manifest) -> tuple[tuple[str, str], bool] | None:
    """The scope that a CustomResourceDefinition gives its kind."""
    if manifest.kind != "CustomResourceDefinition":
        return None
    spec = manifest.to_dict().get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return None
    return (str(spec.get("group")), str(names.get("kind"))), spec.get("scope") != "Cluster"


def _is_namespaced(manifest: Manifest, group: str, scopes: dict[tuple[str, str], bool]) -> bool:
    known = scopes.get((group, manifest.kind))
    if known is not None:
        return known
    if group in (CLUSTER_GROUP, POLICY_GROUP, WORK_GROUP):
        return not manifest.kind.startswith("Cluster")
    return manifest.kind not in _CLUSTER_SCOPED


def _key(manifest: Manifest, raw: RawObject, *, namespaced: bool) -> Key:
    """Where the object is; a namespace that was left out is filled in."""
    if not manifest.name:
        raise ManifestError(f"{manifest.source}: {manifest.kind}: metadata.name is missing")
    namespace = (manifest.namespace or DEFAULT_NAMESPACE) if namespaced else ""
    metadata = raw["metadata"] = {**(raw.get("metadata") or {}), "name": manifest.name}
    metadata.pop("namespace", None)
    if namespace:
        metadata["namespace"] = namespace
    return namespace, manifest.name


def _take(found: Inventory, manifest: Manifest, group: str, key: Key, raw: RawObject) -> None:
    place = f"{manifest.source.file}: {titled(manifest.kind, *key)}"
    if group == CLUSTER_GROUP and manifest.kind == "Cluster":
        found.clusters[key[1]] = place, _cluster(place, raw)
    elif group == POLICY_GROUP and manifest.kind in ("PropagationPolicy", "ClusterPropagationPolicy"):
        found.policies[key] = place, _policy(place, raw, key[0])
    elif group == WORK_GROUP and manifest.kind in ("ResourceBinding", CLUSTER_BINDINGS.kind):
        found.bindings[key] = place, _binding(place, raw)
    elif isinstance(manifest.object, PriorityClass):
        found.priorities[key[1]] = manifest.object.value or 0
    elif not group.endswith(".karmada.io"):
        if isinstance(manifest.object, Namespace):
            found.namespaces[key[1]] = dict(manifest.object.metadata.labels or {})
        found.templates.append(_template(place, manifest, raw, namespaced=bool(key[0])))


def _template(place: str, manifest: Manifest, raw: RawObject, *, namespaced: bool) -> Template:
    group, _, version = manifest.api_version.rpartition("/")
    resource = _BUILT_IN.get((manifest.api_version, manifest.kind)) or Resource(
        group, version, f"{manifest.kind.lower()}s", manifest.kind, namespaced
    )
    view = VIEWS.get(resource, PartialObjectMetadata)
    with _said(place):
        plain = without_nulls(raw)
        convert(plain, view)
        if isinstance(plain, dict):
            served_kinds.default(resource.group, resource.kind, plain)
        return Template(place, resource, convert(plain, view))


# --- Karmada's kinds ---------------------------------------------------------------------------------


def _cluster(place: str, raw: RawObject) -> MemberCluster:
    spec = raw.get("spec")
    if isinstance(spec, dict):
        prepare_cluster(spec, {}, "")
    cluster = _decoded(place, raw, MemberCluster)
    if not cluster.metadata.uid:
        _refuse(place, cluster_problems(cluster))
    summary = cluster.status.resource_summary if cluster.status is not None else None
    for name in ("allocatable", "allocated", "allocating") if summary is not None else ():
        for resource, amount in (getattr(summary, name) or {}).items():
            try:
                quantity.read(amount)
            except quantity.QuantityError as error:
                field_path = f"status.resourceSummary.{name}[{resource}]"
                raise ManifestError(f"{place}: {field_path}: {error}") from None
    return cluster


def _policy(place: str, raw: RawObject, namespace: str) -> LivePolicy:
    checked = _decoded(place, raw, PropagationPolicy)  # for its error: filling in gives a worse one
    if not checked.metadata.uid:
        prepare_policy(raw, namespace)
        _refuse(place, validate_policy(_decoded(place, raw, PropagationPolicy)))
    return _decoded(place, raw, LivePolicy)


def _binding(place: str, raw: RawObject) -> Binding:
    binding = _decoded(place, raw, Binding)
    for name in ("api_version", "kind", "name"):
        if not getattr(binding.spec.resource, name):
            wire = "apiVersion" if name == "api_version" else name
            raise ManifestError(f"{place}: spec.resource.{wire} is missing")
    if not binding.metadata.uid:
        placement = binding.spec.placement
        _refuse(place, validate_placement(placement) if placement is not None else [])
        _refuse(place, validate_annotated(binding.metadata.annotations, placement))
    return binding


def _decoded(place: str, raw: RawObject, view: type[_T]) -> _T:
    with _said(place):
        return convert(without_nulls(raw), view)


@contextmanager
def _said(place: str) -> Iterator[None]:
    """Turn decoding errors into errors that name the object."""
    try:
        yield
    except DecodeError as error:
        raise ManifestError(f"{place}: {error}") from None


def _refuse(place: str, problems: Iterable[FieldError]) -> None:
    for problem in problems:
        raise ManifestError(f"{place}: {problem}")
