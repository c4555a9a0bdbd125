"""Pods: gates, admission, label keys, quality of service, what may change later, and their columns.

Upstream: pkg/registry/core/pod/strategy.go, ValidatePodUpdate in pkg/apis/core/validation, and the admission
plugins that are on by default. The anti-affinity limit is that of
:mod:`berth.kube.affinity.anti_affinity`: a required rule against pods of all namespaces with a domain
larger than a node would let one pod keep everyone else out of a zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from berth.kube.affinity.annotations import (
    AFFINITY_ANNOTATION,
    IN_ANNOTATION,
    IN_SPEC,
    AnnotationError,
    annotated_affinity,
)
from berth.kube.affinity.anti_affinity import AntiAffinityLimit, excesses, rules_of
from berth.kube.amounts.quantity import read
from berth.kube.amounts.resource_lists import positive
from berth.kube.defaults import created
from berth.kube.gates import FeatureGates
from berth.kube.objects import Affinity, Key, Pod, RawObject
from berth.kube.quota.usage import BEST_EFFORT
from berth.kube.taints import NO_EXECUTE, NOT_READY, UNREACHABLE
from berth.kube.times import seconds_of
from berth.kube.validation.errors import FieldError
from berth.kube.validation.objects import validate_pod
from berth.kube.well_known import POD_SCHEDULED, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE
from berth.kube.workloads.stored_templates import default_pod_spec
from berth.server import errors
from berth.server.fields import annotations_of, at, condition, is_true, items, mapping, number, without
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, decode_as, forbidden, invalid, spec_of
from berth.server.registry.kinds.access import service_accounts
from berth.server.registry.kinds.cluster import limits
from berth.server.registry.kinds.cluster.basics import topology_labels
from berth.server.registry.kinds.pods.bindings import bind
from berth.server.registry.kinds.pods.classes import admit_runtime_class, resolve_priority
from berth.server.registry.kinds.pods.evictions import evict
from berth.server.registry.kinds.pods.pod_specs import drop_disabled, drop_unserved, write_back
from berth.server.registry.pod_rules.specs import in_order, pod_spec_errors
from berth.server.registry.strategy import Registry, Strategy, WriteAnswer, served
from berth.server.registry.users import Intent, User
from berth.server.storage.selectors import text_of
from berth.server.tables import AGE, NAME, NONE, Column, human_duration, text

_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_COMPUTE = ("cpu", "memory")
_FOR_A_WHILE = {"operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": 300}
_SUBRESOURCES = "attach binding eviction exec log portforward status"
_MISSING = {  # on a hollow node, by subresource
    "log": "no log",
    "attach": "nothing to attach to",
    "exec": "nothing to execute in",
    "portforward": "nothing to forward to",
}
_ENDED = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    """A pod is decoded once to be judged; everything is decided here rather than in the single steps."""

    def default(self, obj: RawObject) -> None:
        default_pod_spec(spec_of(obj), pod=True)

    def prepare_input(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        super().prepare_input(registry, obj, old)
        drop_disabled(obj, old, registry.gates)

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        if old is not None:
            return _check_update(obj, old) or _judge_update(obj, old, registry.gates)
        if obj["spec"]["terminationGracePeriodSeconds"] < 0:
            obj["spec"]["terminationGracePeriodSeconds"] = 1
        drop_unserved(obj["spec"])
        wrong = list(pod_spec_errors(obj["spec"], "spec"))  # admission adds nothing that is
        limits.default_pod(registry, obj)
        service_accounts.admit(registry, obj)
        resolve_priority(registry, obj)
        _tolerate(obj["spec"])
        admit_runtime_class(registry, obj)
        labels = topology_labels(registry, obj["spec"].get("nodeName") or "")
        if labels:  # it is created on a node
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **labels}
        view = decode_as(obj, Pod)
        pod = created(view)  # matchLabelKeys are merged, and pod-level resources defaulted
        if pod is not view:
            write_back(obj, view, pod)
        _begin_status(obj)
        return in_order(validate_pod(pod, registry.gates), wrong, "spec")

    def authorize_write(self, registry: Registry, obj: RawObject, old: RawObject | None, user: User) -> None:
        limit = registry.policy.limit_for(obj["metadata"]["namespace"], user.name, user.groups)
        if limit is not None and (old is None or obj["spec"] != old["spec"] or _rules(obj) != _rules(old)):
            _check_anti_affinity(obj, old, limit)

    def final_admission(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if old is None:
            limits.check_pod(registry, obj)

    def grace(self, obj: RawObject, options: RawObject) -> int:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        given = options.get("gracePeriodSeconds")
        grace = int(given) if given is not None else int(spec.get("terminationGracePeriodSeconds", 30))
        if not spec.get("nodeName") or status.get("phase") in _ENDED:
            return 0
        return 1 if grace < 0 else grace

    def answer(self, registry: Registry, obj: RawObject, key: Key, intent: Intent) -> WriteAnswer:
        act = bind if intent.subresource == "binding" else evict
        return errors.success(), act(registry, *key, obj, intent).done

    def connect(self, obj: RawObject, subresource: str, query: Mapping[str, str]) -> bytes:
        if subresource != "portforward":
            _check_container(obj, query.get("container", ""))
        if obj["spec"].get("nodeName"):
            why = f"hollow nodes run no containers, so there is {_MISSING[subresource]}"
            raise errors.StatusError(501, "NotImplemented", why)
        if subresource == "log":
            return b""
        raise errors.bad_request(f"pod {obj['metadata']['name']} does not have a host assigned")


def _selectable(obj: RawObject) -> Mapping[str, str]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return {
        "spec.nodeName": text_of(spec.get("nodeName")),
        "spec.restartPolicy": text_of(spec.get("restartPolicy")),
        "spec.schedulerName": text_of(spec.get("schedulerName")),
        "spec.serviceAccountName": text_of(spec.get("serviceAccountName")),
        "spec.hostNetwork": text_of(bool(spec.get("hostNetwork"))),
        "status.phase": text_of(status.get("phase")),
        "status.podIP": text_of(status.get("podIP")),
        "status.nominatedNodeName": text_of(status.get("nominatedNodeName")),
    }


# --- admission


def _tolerate(spec: RawObject) -> None:
    """Let a new pod stay a while on a node that is not ready or not reachable."""
    tolerations = list(spec.get("tolerations") or ())
    for key in (NOT_READY, UNREACHABLE):
        lasting = (one for one in tolerations if one.get("effect") in (NO_EXECUTE, None, ""))
        if not any(one.get("key") in (key, None, "") for one in lasting):
            tolerations.append({"key": key, **_FOR_A_WHILE})
    spec["tolerations"] = tolerations


def _check_anti_affinity(obj: RawObject, old: RawObject | None, limit: AntiAffinityLimit) -> None:
    """Refuse required anti-affinity beyond the limit: by default over all namespaces and more than a node.

    What the pod had before, as somebody else may have been trusted to give it, it keeps.
    """
    if not obj["spec"].get("affinity") and _rules(obj) is None:
        return
    pod, before = decode_as(obj, Pod), decode_as(old, Pod) if old is not None else Pod()
    known = frozenset(rule for _, affinity in _affinities(before) for rule in rules_of(affinity))
    for path, affinity in _affinities(pod):
        for where, detail in excesses(affinity, path, limit, known):
            raise errors.forbidden(("pods", ""), pod.metadata.name or "", f"{where}: {detail}")


def _affinities(pod: Pod) -> Iterator[tuple[str, Affinity | None]]:
    yield IN_SPEC, pod.spec.affinity
    if AFFINITY_ANNOTATION in (pod.metadata.annotations or ()):
        try:
            annotated = annotated_affinity(pod)
        except AnnotationError:
            return  # validation names what cannot be read
        yield f"metadata.annotations[{AFFINITY_ANNOTATION}]", annotated


def _begin_status(pod: RawObject) -> None:
    """A new pod is pending, whatever the client said."""
    status: RawObject = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": SCHEDULING_GATED,
            "message": SCHEDULING_GATED_MESSAGE,
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        }
        status["conditions"] = [gated]
    pod["status"] = status


def qos_class(spec: RawObject) -> str:
    """By the resources of the pod as a whole, if it states them, else by those of each container."""
    guaranteed, any_given = True, False
    for stated in (spec,) if spec.get("resources") is not None else checks.containers_of(spec):
        requests, limits = (mapping(stated, "resources", name) for name in ("requests", "limits"))
        for name in _COMPUTE:
            request, limit = requests.get(name), limits.get(name)
            any_given = any_given or positive(request) or positive(limit)
            guaranteed = guaranteed and positive(limit) and _same(requests.get(name, limit), limit)
    if not any_given:
        return BEST_EFFORT
    return "Guaranteed" if guaranteed else "Burstable"


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401
    return one == other or read(one).equals(read(other))


# --- updates --------------------------------------------------------------------------------------


def _judge_update(obj: RawObject, old: RawObject, gates: FeatureGates) -> list[FieldError]:
    found = validate_pod(decode_as(obj, Pod), gates)
    if _rules(obj) == _rules(old):  # stored by a server that asked for less: it must be able to go
        found = [error for error in found if not error.field.startswith(IN_ANNOTATION)]
    return found


def _rules(pod: RawObject) -> str | None:
    """The affinity that a pod's annotation states."""
    stated: str | None = annotations_of(pod).get(AFFINITY_ANNOTATION)
    return stated


def _check_update(pod: RawObject, old: RawObject) -> list[FieldError]:
    """What an update of a pod's spec may not change."""
    new_spec, old_spec = pod["spec"], old["spec"]
    if new_spec == old_spec:
        return []
    if len(new_spec.get("containers") or ()) != len(old_spec.get("containers") or ()):
        return [forbidden("spec.containers", "pod updates may not add or remove containers")]
    found = list(_check_fields(new_spec, old_spec))
    gated_before = bool(old_spec.get("schedulingGates"))
    if _frozen(new_spec, gated_before) != _frozen(old_spec, gated_before):
        found.append(forbidden("spec", _IMMUTABLE))
    return found


def _frozen(spec: RawObject, gated_before: bool) -> RawObject:
    """The part of a spec that does not change in a pod's life."""
    loose = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "containers", "initContainers")
    kept = without(spec, *loose, *(("nodeSelector", "affinity") if gated_before else ()))
    for name in ("containers", "initContainers"):
        kept[name] = [without(container, "image", "imagePullPolicy") for container in spec.get(name) or ()]
    if (kept.get("terminationGracePeriodSeconds") or 0) < 0:
        kept["terminationGracePeriodSeconds"] = 1
    return kept


def _check_fields(new: RawObject, old: RawObject) -> FieldErrors:
    """The fields of a spec that may change in one direction only."""
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if before is not None and after is None:
        yield invalid(path, None, "must not update from a positive integer to nil value")
    elif before is not None and after > before:
        yield invalid(path, after, "must be less than or equal to previous value")
    kept = [without(item, "tolerationSeconds") for item in new.get("tolerations") or ()]
    if any(without(item, "tolerationSeconds") not in kept for item in old.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", detail)
    gates = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    added = [gate.get("name") for gate in new.get("schedulingGates") or () if gate.get("name") not in gates]
    if added:
        detail = f"only deletion is allowed, but found new scheduling gate '{added[0]}'"
        yield forbidden("spec.schedulingGates", detail)


def _check_container(pod: RawObject, name: str) -> None:
    """Refuse a container that the pod has not, or none if several can be meant (400)."""
    spec, own = pod["spec"], pod["metadata"]["name"]
    regular, first = (
        [container.get("name") for container in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    )
    if name and name not in (*regular, *first):
        raise errors.bad_request(f"container {name} is not valid for pod {own}")
    if not name and len(regular) != 1:
        why = f"a container name must be specified for pod {own}, choose one of: [{' '.join(regular)}]"
        if first:
            why += f" or one of the init containers: [{' '.join(first)}]"
        raise errors.bad_request(why)


# --- columns


def _sidecars(pod: RawObject) -> set[object]:
    """The names of the init containers that go on running."""
    wanted = items(pod, "spec", "initContainers")
    return {at(each, "name") for each in wanted if at(each, "restartPolicy") == "Always"}


def _ended(terminated: RawObject) -> str:
    """One word for how a container ended."""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: RawObject) -> str | None:
    """What initialization is busy with or failed at, None once it is through."""
    wanted, sidecars = items(pod, "spec", "initContainers"), _sidecars(pod)
    for index, container in enumerate(items(pod, "status", "initContainerStatuses")):
        terminated = at(container, "state", "terminated")
        if isinstance(terminated, dict):
            if terminated.get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(terminated)}"
        if at(container, "started") and at(container, "name") in sidecars:
            continue
        waiting = at(container, "state", "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(wanted)}"
    return None


def _running(pod: RawObject, reason: str) -> str:
    """The first container with something to say, but one still running outweighs a finished one."""
    failed, running = "", False
    for container in reversed(items(pod, "status", "containerStatuses")):
        waiting = at(container, "state", "waiting", "reason")
        terminated = at(container, "state", "terminated")
        if waiting:
            reason = str(waiting)
        elif isinstance(terminated, dict):
            reason = _ended(terminated)
            failed = reason if terminated.get("exitCode", 0) else failed
        elif at(container, "ready") and at(container, "state", "running") is not None:
            running = True
    if reason != "Completed":
        return reason
    if running and is_true(pod, "Ready"):
        return "Running"
    return failed or ("NotReady" if running else reason)


def status_of(pod: RawObject) -> str:
    """The word in the STATUS column: the phase, or the most telling reason there is."""
    phase = str(at(pod, "status", "phase") or "")
    cause = at(pod, "status", "reason")
    if at(pod, "metadata", "deletionTimestamp"):
        if cause == "NodeLost":
            return "Unknown"
        if phase not in _ENDED:
            return "Terminating"
    reason = str(cause or phase)
    if condition(pod, POD_SCHEDULED).get("reason") == SCHEDULING_GATED:
        reason = SCHEDULING_GATED
    initializing = _initializing(pod)
    if initializing is not None and not is_true(pod, "Initialized"):
        return initializing
    return _running(pod, initializing or reason)


def _ready(pod: RawObject, _: float) -> str:
    sidecars = _sidecars(pod)
    ready = sum(
        bool(at(each, "ready") and at(each, "started"))
        for each in items(pod, "status", "initContainerStatuses")
        if at(each, "name") in sidecars
    ) + sum(
        bool(at(each, "ready") and at(each, "state", "running") is not None)
        for each in items(pod, "status", "containerStatuses")
    )
    return f"{ready}/{len(items(pod, 'spec', 'containers')) + len(sidecars)}"


def _restarts(pod: RawObject, now: float) -> str:
    through = _initializing(pod) is None or is_true(pod, "Initialized")
    sidecars, counted = _sidecars(pod), items(pod, "status", "initContainerStatuses")
    if through:
        lasting = [each for each in counted if at(each, "name") in sidecars]
        counted = lasting + items(pod, "status", "containerStatuses")
    total = sum(number(each, "restartCount") for each in counted)
    ends = [seconds_of(at(each, "lastState", "terminated", "finishedAt")) for each in counted]
    known = [end for end in ends if end is not None]
    return f"{total} ({human_duration(now - max(known))} ago)" if total and known else str(total)


def _ip(pod: RawObject, _: float) -> str:
    addresses = items(pod, "status", "podIPs")
    return str((at(addresses[0], "ip") if addresses else at(pod, "status", "podIP")) or NONE)


def _gates(pod: RawObject, _: float) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(pod, str(at(gate, 'conditionType'))) for gate in gates)}/{len(gates)}"


STRATEGIES = (
    PodStrategy(
        served("v1", "Pod", short="po", categories="all", subresources=_SUBRESOURCES),
        columns=(
            NAME,
            Column("Ready", _ready),
            Column("Status", lambda pod, _: status_of(pod)),
            Column("Restarts", _restarts),
            AGE,
            Column("IP", _ip, wide=True),
            Column("Node", text("spec", "nodeName", otherwise=NONE), wide=True),
            Column("Nominated Node", text("status", "nominatedNodeName", otherwise=NONE), wide=True),
            Column("Readiness Gates", _gates, wide=True),
        ),
        fields=_selectable,
        status_metadata=("labels", "annotations", "finalizers"),
        returns_deleted=True,
    ),
)
