"""Topology spread constraints."""

from __future__ import annotations

from berth.kube.objects import TopologySpreadConstraint
from berth.kube.validation.affinity import check_label_keys
from berth.kube.validation.errors import Errors, Path
from berth.kube.validation.selectors import check_label_selector
from berth.kube.well_known import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY

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
