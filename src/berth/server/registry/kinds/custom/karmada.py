"""Karmada's kinds: their definitions, and what its webhooks and its own API server do to what is written.

Upstream: pkg/webhook/{propagationpolicy,clusterpropagationpolicy,resourcebinding},
pkg/util/helper/policy.go, pkg/registry/cluster and pkg/apis/cluster/{mutation,validation}.
"""

from __future__ import annotations

from importlib.resources import files

from berth.kube import karmada, names
from berth.kube.amounts.quantity import Quantity, read
from berth.kube.objects import RawObject
from berth.kube.taints import NO_EXECUTE
from berth.kube.text import yaml_reader
from berth.kube.validation.placement import validate_annotated, validate_placement, validate_policy
from berth.server.fields import at, mapping, mappings
from berth.server.registry.checks import (
    FieldErrors,
    at_least,
    decode_as,
    each,
    forbidden,
    invalid,
    numbered,
    once,
)
from berth.server.registry.kinds.custom.resources import CustomStrategy
from berth.server.registry.strategy import Registry

_GRACE = 600  # seconds an application that fails over is kept
_CLUSTER_NAME_LENGTH = 48
_BOUNDLESS = 2**63 - 1


def definitions() -> list[RawObject]:
    """The CustomResourceDefinitions of all of them, as a client would create them."""
    text = files(__package__).joinpath("karmada.yaml").read_text(encoding="utf-8")
    found: list[RawObject] = next(yaml_reader.read(text)).value
    return found


class KarmadaStrategy(CustomStrategy):
    """Karmada's kinds say more than their schemas; what has another form than it should is left alone."""

    def _validate_annotations(self, obj: RawObject) -> tuple[()]:
        return ()


class KarmadaClusterStrategy(KarmadaStrategy):
    """A member cluster. Nobody here finds out about it: whoever describes it gives its status, too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.status_apart = False

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        prepare_cluster(mapping(obj, "spec"), mapping(old, "spec"), registry.timestamp())

    def check(self, obj: RawObject) -> FieldErrors:
        return cluster_problems(decode_as(obj, karmada.MemberCluster))


class KarmadaBindingStrategy(KarmadaStrategy):
    """A binding, which is known for good by a label."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        metadata = obj["metadata"]
        labels = mapping(metadata, "labels")
        if not labels.get(self._permanent_id):
            before = at(old, "metadata", "labels", self._permanent_id)
            metadata["labels"] = {**labels, self._permanent_id: before or registry.new_uid()}

    @property
    def _permanent_id(self) -> str:
        return f"{self.resource.kind.lower()}{karmada.PERMANENT_ID}"

    def check(self, obj: RawObject) -> FieldErrors:
        binding = decode_as(obj, karmada.Binding)
        placement = binding.spec.placement
        found = validate_placement(placement) if placement is not None else []
        yield from found or validate_annotated(binding.metadata.annotations, placement)


class KarmadaPolicyStrategy(KarmadaBindingStrategy):
    """A policy, whose label the server alone sets, when the policy is made."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        prepare_policy(obj, obj["metadata"].get("namespace") or "")
        if old is None:
            mapping(obj, "metadata", "labels").pop(self._permanent_id, None)
        super().prepare(registry, obj, old)

    def check(self, obj: RawObject) -> FieldErrors:
        yield from validate_policy(decode_as(obj, karmada.PropagationPolicy))
        yield from _behaviour_problems(obj["spec"])

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        if obj["spec"].get("schedulerName") != old["spec"].get("schedulerName"):
            yield forbidden("spec.schedulerName", "the schedulerName should not be updated")
        label = self._permanent_id
        if at(obj, "metadata", "labels", label) != at(old, "metadata", "labels", label):
            detail = f"label {label} is immutable, it can only be set by the system during creation"
            yield forbidden("metadata.labels", detail)


BY_GROUP: dict[str, type[KarmadaStrategy]] = {
    karmada.CLUSTER_GROUP: KarmadaClusterStrategy,
    karmada.POLICY_GROUP: KarmadaPolicyStrategy,
    karmada.WORK_GROUP: KarmadaBindingStrategy,
}


# --- filling in


def prepare_cluster(spec: RawObject, old: RawObject, now: str) -> None:
    zones = spec.get("zones")
    # Applied again, a manifest with a zone meets the zones that were made of it.
    kept = isinstance(zones, list) and len(zones) == 1 and zones == old.get("zones")
    if spec.get("zone") and (not zones or kept):
        spec["zones"] = [spec.pop("zone")]
    for taint in mappings(spec, "taints"):
        if taint.get("effect") == NO_EXECUTE and not taint.get("timeAdded"):
            taint["timeAdded"] = now
    models = mappings(spec, "resourceModels")
    if models and all(isinstance(model.get("grade"), int) for model in models):
        models.sort(key=lambda model: int(model["grade"]))
        spec["resourceModels"] = models
        for lowest in mappings(models[0].get("ranges")):
            lowest["min"] = "0"
        for highest in mappings(models[-1].get("ranges")):
            highest["max"] = str(_BOUNDLESS)


def prepare_policy(obj: RawObject, namespace: str) -> None:
    spec = mapping(obj, "spec")
    for selector in mappings(spec, "resourceSelectors"):
        if namespace and not selector.get("namespace"):
            selector["namespace"] = namespace
    placement = mapping(spec, "placement")
    for constraint in mappings(placement, "spreadConstraints"):
        if not constraint.get("spreadByField") and not constraint.get("spreadByLabel"):
            constraint["spreadByField"] = "cluster"
        if not constraint.get("minGroups"):
            constraint["minGroups"] = 1
    scheduling = mapping(placement, "replicaScheduling")
    if scheduling.get("replicaSchedulingType") == karmada.DIVIDED:
        scheduling.setdefault("replicaDivisionPreference", karmada.WEIGHTED)
    application = mapping(spec, "failover", "application")
    if application.get("purgeMode") == "Gracefully":
        application.setdefault("gracePeriodSeconds", _GRACE)


# --- checks -------------------------------------------------------------------------------------------


def _behaviour_problems(spec: RawObject) -> FieldErrors:
    """The parts of a policy that are only passed on."""
    application = at(spec, "failover", "application")
    if application is not None:
        if not spec.get("propagateDeps"):
            detail = "application failover is set, propagateDeps must be true"
            yield invalid("spec.propagateDeps", False, detail)
        yield from _application_problems("spec.failover.application", application)
    for part in ("application", "cluster"):
        rules = mappings(spec, "failover", part, "statePreservation", "rules")
        for path, rule in numbered(f"spec.failover.{part}.statePreservation.rules", rules):
            alias = rule.get("aliasLabelName") or ""
            yield from each(f"{path}.aliasLabelName", alias, names.label_key_errors(alias))
    suspension = mapping(spec, "suspension")
    if suspension.get("dispatching") and mapping(suspension, "dispatchingOnClusters").get("clusterNames"):
        detail = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"
        yield invalid("spec.suspension", suspension, detail)


def _application_problems(path: str, application: RawObject) -> FieldErrors:
    tolerated = mapping(application, "decisionConditions").get("tolerationSeconds")
    yield from at_least(f"{path}.decisionConditions.tolerationSeconds", tolerated, 0)
    grace = application.get("gracePeriodSeconds")
    if grace is not None and application.get("purgeMode") != "Gracefully":
        yield invalid(f"{path}.gracePeriodSeconds", grace, "only takes effect when purgeMode is gracefully")
    yield from at_least(f"{path}.gracePeriodSeconds", grace, 1, "must be greater than 0")


def cluster_problems(cluster: karmada.MemberCluster) -> FieldErrors:
    name, spec = cluster.metadata.name or "", cluster.spec
    if len(name) > _CLUSTER_NAME_LENGTH:
        yield invalid("metadata.name", name, f"must be no more than {_CLUSTER_NAME_LENGTH} characters")
    elif name:
        yield from each("metadata.name", name, names.dns_label_errors(name))
    if spec.zone and spec.zones:
        yield forbidden("spec.zone", "Zone and Zones cannot co-exist")
    places = [("provider", spec.provider), ("region", spec.region), ("zone", spec.zone)]
    for field, value in [*places, *(("zones", zone) for zone in spec.zones or ())]:
        if messages := names.label_value_errors(value or ""):
            yield invalid(f"spec.{field}", value, "; ".join(messages))
    seen: set[tuple[str, str]] = set()
    for path, taint in numbered("spec.taints", spec.taints or ()):
        key, effect = taint.key or "", taint.effect or ""
        yield from each(f"{path}.key", key, names.label_key_errors(key))
        yield from each(f"{path}.value", taint.value, names.label_value_errors(taint.value or ""))
        yield from once(seen, path, (key, effect), taint, "taints must be unique by key and effect pair")
    if detail := _model_problem(spec.resource_models or []):
        yield invalid("spec.resourceModels", spec.resource_models, detail)


def _model_problem(models: list[karmada.ResourceModel]) -> str:
    """The first thing wrong with them, as upstream reports only one; their outer bounds were filled in."""
    before: list[tuple[str, Quantity, Quantity]] = []
    for i, model in enumerate(models):
        ranges = [(r.name or "", read(r.min or 0), read(r.max or 0)) for r in model.ranges or ()]
        if i and model.grade == models[i - 1].grade:
            return "The grade of each models should not be the same"
        if i and len(before) != len(ranges):
            return "The number of resource types should be the same"
        for j, (name, least, most) in enumerate(ranges):
            if not most.exceeds(least):
                return "The max value of each resource must be greater than the min value"
            if i and before[j][0] != name:
                return "The resource types of each models should be the same"
            if i and not before[j][2].equals(least):
                return "Model intervals for resources must be contiguous and non-overlapping"
        before = ranges
    return ""
