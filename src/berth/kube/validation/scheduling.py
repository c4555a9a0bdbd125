"""What else of a pod spec scheduling reads: tolerations, gates, volumes, topology spread constraints."""

from __future__ import annotations

from berth.kube import names
from berth.kube.objects import (
    PodSchedulingGate,
    PodSchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from berth.kube.selectors import EXISTS, GT, LT
from berth.kube.validation.affinity import check_label_keys
from berth.kube.validation.errors import Errors, Path
from berth.kube.validation.metadata import check_label_key
from berth.kube.validation.selectors import check_label_selector
from berth.kube.well_known import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EQUAL = "Equal"
_KEY_EMPTY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_SECONDS = "effect must be 'NoExecute' when `tolerationSeconds` is set"
_EXISTS_VALUE = "value must be empty when `operator` is 'Exists'"


def check_tolerations(tolerations: list[Toleration], errors: Errors, path: Path) -> None:
    for i, toleration in enumerate(tolerations):
        _check_toleration(toleration, errors, (*path, i))


def _check_toleration(toleration: Toleration, errors: Errors, path: Path) -> None:
    operator, effect = toleration.operator or "", toleration.effect or ""
    if toleration.key:
        check_label_key(toleration.key, errors, (*path, "key"))
    elif operator != EXISTS:
        errors.invalid((*path, "operator"), operator, _KEY_EMPTY)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        errors.invalid((*path, "effect"), effect, _SECONDS)
    _check_toleration_value(operator, toleration.value or "", errors, (*path, "operator"))
    errors.one_of((*path, "effect"), effect or None, EFFECTS)


def _check_toleration_value(operator: str, value: str, errors: Errors, path: Path) -> None:
    # Errors about the value are reported at the operator, as the API server does.
    if operator in (_EQUAL, ""):
        if messages := names.label_value_errors(value):
            errors.invalid(path, value, ";".join(messages))
    elif operator == EXISTS:
        if value:
            errors.invalid(path, value, _EXISTS_VALUE)
    elif operator in (LT, GT):
        # Behind the feature gate TaintTolerationComparisonOperators, which is off in v1.36.
        errors.not_supported(path, operator, (_EQUAL, EXISTS, LT, GT))
    else:
        errors.not_supported(path, operator, (_EQUAL, EXISTS))


def check_scheduling_gates(gates: list[PodSchedulingGate], errors: Errors, path: Path) -> None:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.name or ""
        check_label_key(name, errors, (*path, i))
        errors.once(seen, (*path, i), name)


def check_scheduling_group(group: PodSchedulingGroup, errors: Errors, path: Path) -> None:
    name = group.pod_group_name
    if name is None:
        errors.invalid((*path, "podGroupName"), None, "must specify one of: `podGroupName`")
    else:
        errors.invalid_for_each((*path, "podGroupName"), name, names.dns_subdomain_errors(name))


def check_volumes(volumes: list[Volume], errors: Errors, path: Path) -> set[str]:
    """The names of those that are valid."""
    seen: set[str] = set()
    for i, volume in enumerate(volumes):
        before = len(errors)
        _check_volume(volume, errors, (*path, i))
        name = volume.name or ""
        if name in seen:
            errors.duplicate((*path, i, "name"), name)
        if len(errors) == before:
            seen.add(name)
    return seen


def _check_volume(volume: Volume, errors: Errors, path: Path) -> None:
    if volume.image is not None and not volume.image.reference:
        errors.required((*path, "image", "reference"))
    claim = volume.persistent_volume_claim
    if claim is not None and not claim.claim_name:
        errors.required((*path, "persistentVolumeClaim", "claimName"))
    if not volume.name:
        errors.required((*path, "name"))
    else:
        errors.invalid_for_each((*path, "name"), volume.name, names.dns_label_errors(volume.name))


# --- topology spread constraints ------------------------------------------------------------------

POLICIES = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"


def check_spread_constraints(constraints: list[TopologySpreadConstraint], errors: Errors, path: Path) -> None:
    kinds = [(each.topology_key or "", each.when_unsatisfiable or "") for each in constraints]
    last = {kind: i for i, kind in enumerate(kinds)}
    for i, constraint in enumerate(constraints):
        _check_constraint(constraint, errors, (*path, i))
        key, action = kinds[i]
        if last[key, action] > i:
            errors.duplicate((*path, i, "{topologyKey, whenUnsatisfiable}"), f"{{{key}, {action}}}")


def _check_constraint(constraint: TopologySpreadConstraint, errors: Errors, path: Path) -> None:
    if (constraint.max_skew or 0) <= 0:
        errors.invalid((*path, "maxSkew"), constraint.max_skew or 0, _POSITIVE)
    if not constraint.topology_key:
        errors.required((*path, "topologyKey"), "can not be empty")
    action = constraint.when_unsatisfiable or ""
    errors.one_of((*path, "whenUnsatisfiable"), action, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    _check_min_domains(constraint.min_domains, action, errors, (*path, "minDomains"))
    errors.one_of((*path, "nodeAffinityPolicy"), constraint.node_affinity_policy, POLICIES)
    errors.one_of((*path, "nodeTaintsPolicy"), constraint.node_taints_policy, POLICIES)
    if constraint.match_label_keys:
        check_label_keys(constraint.match_label_keys, [], constraint.label_selector, errors, path)
    check_label_selector(constraint.label_selector, errors, (*path, "labelSelector"))


def _check_min_domains(count: int | None, action: str, errors: Errors, path: Path) -> None:
    if count is None:
        return
    if count <= 0:
        errors.invalid(path, count, _POSITIVE)
    if action != DO_NOT_SCHEDULE:
        detail = f"can only use minDomains if whenUnsatisfiable={DO_NOT_SCHEDULE}, not {action}"
        errors.invalid(path, count, detail)
