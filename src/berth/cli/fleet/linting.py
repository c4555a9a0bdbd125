"""The policies among manifests, for `berth lint`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from berth.engine.offline.lint.documents import refused_object
from berth.engine.offline.lint.findings import Finding, hit
from berth.engine.offline.lint.linting import as_finding
from berth.fleet.offline.lint import FLEET_CHECKS, FleetWorld, LintedPolicy
from berth.kube.api_resources import Resource
from berth.kube.karmada import POLICY_GROUP, PropagationPolicy
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import DEFAULT_NAMESPACE, Manifest
from berth.kube.objects import ObjectMeta, PartialObjectMetadata
from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.kube.validation.placement import validate_policy
from berth.server.registry.kinds.custom.karmada import prepare_policy

_POLICIES = ("PropagationPolicy", "ClusterPropagationPolicy")
_KARMADA = ".karmada.io"

Keys = tuple[str, ...] | None


def is_karmadas(manifest: Manifest) -> bool:
    return kinds.group_of(manifest.api_version).endswith(_KARMADA)


def policy_findings(
    files: Sequence[Manifest], around: Sequence[Manifest], affinity_keys: Keys, anti_affinity_keys: Keys
) -> Iterator[Finding]:
    """What is wrong with the policies of files, beside everything there is."""
    policies = []
    for manifest in files:
        if kinds.group_of(manifest.api_version) != POLICY_GROUP or manifest.kind not in _POLICIES:
            continue
        read = _policy(manifest)
        if isinstance(read, LintedPolicy):
            policies.append(read)
        else:
            yield from read
    if not policies:
        return
    resources = [found for m in (*files, *around) if (found := _resource(m)) is not None]
    world = FleetWorld(policies, resources, affinity_keys, anti_affinity_keys)
    for check in FLEET_CHECKS:
        for each in check.find(world):
            yield as_finding(check, each)


def _policy(manifest: Manifest) -> LintedPolicy | list[Finding]:
    """A policy as Karmada would store it, or why it would not."""
    raw = copy.deepcopy(manifest.to_dict())
    namespaced = manifest.kind == _POLICIES[0]
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and namespaced:
        metadata.setdefault("namespace", DEFAULT_NAMESPACE)
    try:
        convert(without_nulls(raw), PropagationPolicy)  # says it better than what fills in would
        prepare_policy(raw, (manifest.namespace or DEFAULT_NAMESPACE) if namespaced else "")
        view = convert(without_nulls(raw), PropagationPolicy)
        found = [
            (error.field, str(error).removeprefix(f"{error.field}: ")) for error in validate_policy(view)
        ]
    except DecodeError as error:
        found = [(error.path, error.detail)]
    if not found or (isinstance(metadata, dict) and metadata.get("uid")):
        return LintedPolicy(manifest, view)
    fix = "write a value that is allowed; the object is judged no further"
    return [
        as_finding(refused_object, hit(manifest, path, f"Karmada refuses it: {detail}", fix))
        for path, detail in found
    ]


def _resource(manifest: Manifest) -> tuple[Resource, ObjectMeta] | None:
    if is_karmadas(manifest):
        return None
    group, _, version = manifest.api_version.rpartition("/")
    if manifest.object is not None:
        metadata = manifest.object.metadata
    else:
        try:
            metadata = convert(without_nulls(manifest.to_dict()), PartialObjectMetadata).metadata
        except DecodeError:
            return None
    return Resource(group, version or "v1", "", manifest.kind), metadata
