"""Disruption budgets, and the eviction of pods: a delete that asks the pod's budget first.

Upstream: pkg/registry/core/pod/storage/eviction.go.  Looking at the budget, taking from it and
deleting the pod happen in one turn of the event loop, so concurrent evictions cannot overrun it.
"""

from __future__ import annotations

from berth.kube.disruption import is_lenient, spares_unhealthy
from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.well_known import DISRUPTION_TARGET
from berth.server import errors
from berth.server.fields import at, condition, is_true, mapping, upsert_condition, without
from berth.server.registry import deletion, writes
from berth.server.registry.checks import FieldErrors, at_most_all, choice, decode_as, share
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.registry.users import Intent
from berth.server.registry.writes import Write
from berth.server.storage.bucket import Record, decode
from berth.server.tables import AGE, NAME, Column, count, text

_CAUSE = "DisruptionBudget"
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_MAX_DISRUPTED = 2000
_CONDITION = {
    "type": DISRUPTION_TARGET,
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_INSUFFICIENT = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""}
_NOT_GIVEN = "N/A"  # in tables


class DisruptionBudgetStrategy(Strategy):
    """A count, or a share of not more than all."""

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        for name in ("minAvailable", "maxUnavailable"):
            yield from share(f"spec.{name}", spec.get(name))
            yield from at_most_all(f"spec.{name}", spec.get(name))
        yield from choice("spec", spec, "unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget")


GROUP_PRIORITIES = {"policy": 17_100}
STRATEGIES = (
    DisruptionBudgetStrategy(
        served("policy/v1", "PodDisruptionBudget", short="pdb", subresources="status"),
        columns=(
            NAME,
            Column("Min Available", text("spec", "minAvailable", otherwise=_NOT_GIVEN)),
            Column("Max Unavailable", text("spec", "maxUnavailable", otherwise=_NOT_GIVEN)),
            Column("Allowed Disruptions", count("status", "disruptionsAllowed"), type="integer"),
            AGE,
        ),
        first_status=dict.fromkeys(
            ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0
        ),
    ),
)


def evict(registry: Registry, namespace: str, name: str, eviction: RawObject, intent: Intent) -> Write:
    """Delete a pod if its budget allows it, or else 429, and the preconditions hold, or else 409."""
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options = deletion.options_of(mapping(eviction, "deleteOptions"), {})
    dry_run = intent.dry_run or bool(options.get("dryRun"))
    pods = registry.builtin("", "pods")
    record = writes.current(pods, (namespace, name))
    pod = decode(record.data)
    deletion.check_preconditions(pods, pod, record, options)
    # No budget counts a pod that has already stopped, not begun, or is on its way out.
    counts = at(pod, "status", "phase") not in ("Succeeded", "Failed", "Pending")
    if counts and not pod["metadata"].get("deletionTimestamp"):
        budget = _budget_of(registry, pod)
        if budget is not None and not _unhealthy_may_go(pod, budget[1]):
            _take(registry, budget, name, dry_run=dry_run)
    if dry_run:
        return Write(record)
    # What was said before of why the pod goes is kept, unlike upstream, which writes over it: a pod that
    # stops at once would be gone before whoever evicts it could say it again.
    target = condition(pod, _CONDITION["type"])
    if target.get("status") != "True" or not target.get("reason"):
        upsert_condition(pod, dict(_CONDITION), registry.timestamp())
    marked = writes.put_as_is(registry, pods, record.key, pod).record
    return deletion.delete(registry, pods, marked, without(options, "preconditions"))


def _budget_of(registry: Registry, pod: RawObject) -> tuple[Record, RawObject] | None:
    labels = pod["metadata"].get("labels") or {}
    bucket, found = registry.bucket("poddisruptionbudgets", "policy"), []
    for record in bucket.newest_in(pod["metadata"]["namespace"]):
        budget = decode(record.data)
        given = budget["spec"].get("selector")
        selector = parse_label_selector(decode_as(given, LabelSelector) if given is not None else None)
        if selector.matches(labels):
            found.append((record, budget))
    if len(found) > 1:
        raise errors.StatusError(500, "", _SEVERAL)
    return found[0] if found else None


def _unhealthy_may_go(pod: RawObject, budget: RawObject) -> bool:
    if is_true(pod, "Ready"):
        return False
    lenient, status = is_lenient(budget["spec"].get("unhealthyPodEvictionPolicy")), mapping(budget, "status")
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return spares_unhealthy(lenient=lenient, healthy=healthy, desired=desired)


def _take(registry: Registry, budget: tuple[Record, RawObject], pod_name: str, *, dry_run: bool) -> None:
    """Count one disruption against the budget, or refuse."""
    record, pdb = budget
    name, status = pdb["metadata"]["name"], dict(pdb.get("status") or {})
    if status.get("observedGeneration", 0) < pdb["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise errors.too_many_requests(_VIOLATES, 10, [{"reason": _CAUSE, "message": message}])
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.forbidden(("poddisruptionbudget", "policy"), name, "pdb disruptions allowed is negative")
    disrupted = dict(status.get("disruptedPods") or {})
    if len(disrupted) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden(("poddisruptionbudget", "policy"), name, why)
    if allowed == 0:
        cause = {"reason": _CAUSE, "message": _explained(name, status)}
        raise errors.too_many_requests(_VIOLATES, 0, [cause])
    if dry_run:
        return
    now = registry.timestamp()
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**disrupted, pod_name: now}
    if allowed == 1:
        others = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionAllowed"]
        seen = {"observedGeneration": pdb["metadata"].get("generation", 0), "lastTransitionTime": now}
        status["conditions"] = [*others, {**_INSUFFICIENT, **seen}]
    pdb["status"] = status
    writes.put_as_is(registry, registry.builtin("policy", "poddisruptionbudgets"), record.key, pdb)


def _explained(name: str, status: RawObject) -> str:
    allowed = condition({"status": status}, "DisruptionAllowed")
    said = allowed.get("message", "") if allowed.get("status") == "False" else ""
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    if said and allowed.get("reason") == "SyncFailed":
        return f"{refused} because it failed sync: {said}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"{refused} ({allowed.get('reason')}): {said}" if said else refused
