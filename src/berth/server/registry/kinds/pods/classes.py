"""PriorityClasses and RuntimeClasses, and what a pod gets of its own: priority, overhead, where it can run.

Upstream: pkg/registry/scheduling/priorityclass, plugin/pkg/admission/{priority,runtimeclass} and
pkg/apis/node/validation.
"""

from __future__ import annotations

from berth.kube.amounts.quantity import read
from berth.kube.api_resources import PODS, Resource
from berth.kube.defaults import SYSTEM_CLASSES
from berth.kube.objects import RawObject
from berth.kube.taints import NO_EXECUTE
from berth.kube.workloads.stored_templates import spell_amounts
from berth.server import errors
from berth.server.fields import mapping, mappings
from berth.server.registry.checks import FieldErrors, forbidden, label
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.tables import AGE, NAME, Column, count, flag, text

HIGHEST = 1_000_000_000  # for whoever is not the system


class PriorityClassStrategy(Strategy):
    """The names of the system's classes are taken, and a class keeps its value."""

    def check(self, obj: RawObject) -> FieldErrors:
        if obj.get("value", 0) > HIGHEST and not obj["metadata"].get("name", "").startswith("system-"):
            yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}")

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        for field, dot in (("value", "."), ("preemptionPolicy", "")):
            if obj.get(field) != old.get(field):
                yield forbidden(field, f"may not be changed in an update{dot}")

    def final_admission(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        name = obj["metadata"]["name"]
        if old is None and name.startswith("system-") and SYSTEM_CLASSES.get(name) != obj.get("value"):
            why = "priority class names with 'system-' prefix are reserved for system use only"
            raise errors.forbidden(self.resource, name, why)
        known = _priority_class(registry, "") if obj.get("globalDefault") else None
        if known is not None and (first := known["metadata"]["name"]) != name:
            why = f"PriorityClass {first} is already marked as default. Only one default can exist"
            raise errors.forbidden(self.resource, name, why)


class RuntimeClassStrategy(Strategy):
    """A class keeps its handler."""

    def default(self, obj: RawObject) -> None:
        spell_amounts(mapping(obj, "overhead", "podFixed"))
        for toleration in mappings(obj, "scheduling", "tolerations"):
            toleration.setdefault("operator", "Equal")

    def check(self, obj: RawObject) -> FieldErrors:
        return label("handler", obj.get("handler"))


GROUP_PRIORITIES = {"scheduling.k8s.io": 16_600, "node.k8s.io": 16_300}
STRATEGIES = (
    PriorityClassStrategy(
        served("scheduling.k8s.io/v1", "PriorityClass", namespaced=False, short="pc"),
        columns=(
            NAME,
            Column("Value", count("value"), type="integer"),
            Column("Global-Default", flag("globalDefault"), type="boolean"),
            AGE,
            Column("PreemptionPolicy", text("preemptionPolicy")),
        ),
        defaults={"value": 0, "preemptionPolicy": "PreemptLowerPriority"},
    ),
    RuntimeClassStrategy(
        served("node.k8s.io/v1", "RuntimeClass", namespaced=False),
        columns=(NAME, Column("Handler", text("handler")), AGE),
        frozen=("handler",),
        create_on_update=True,
    ),
)


# --- the priority of a pod


_OTHER_PRIORITY = (
    "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller "
    "computed {value} from the given PriorityClass name"
)
_OTHER_GROUP_PRIORITY = (
    "priority set in the pod group ({given}) must match the priority computed ({value}) based on the "
    "priority class set in the spec"
)


def resolve_group_priority(registry: Registry, resource: Resource, group: RawObject) -> None:
    """The same for a group of pods."""
    _resolve(registry, resource, group, _OTHER_GROUP_PRIORITY)


def resolve_priority(registry: Registry, pod: RawObject) -> None:
    """Set ``spec.priority`` from a pod's class, in place; 403 if there is none or the pod contradicts it."""
    spec, found = pod["spec"], _resolve(registry, PODS, pod, _OTHER_PRIORITY)
    policy = found.get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy") not in (None, policy):
        detail = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise _refused(pod, detail)
    spec["preemptionPolicy"] = policy


def _resolve(registry: Registry, resource: Resource, obj: RawObject, contradiction: str) -> RawObject:
    """Give an object the priority of the class it names, or else of the default one, which is returned."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    chosen, given = spec.get("priorityClassName") or "", spec.get("priority")
    found = _priority_class(registry, chosen)
    if chosen and found is None:
        raise errors.forbidden(resource, name, f"no PriorityClass with name {chosen} was found")
    value = found["value"] if found is not None else 0
    if given not in (None, value):
        raise errors.forbidden(resource, name, contradiction.format(given=given, value=value))
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = value
    return found or {}


def _priority_class(registry: Registry, name: str) -> RawObject | None:
    """The class of a name, or the default one if there is no name."""
    bucket = registry.bucket("priorityclasses", "scheduling.k8s.io")
    if name:
        record = bucket.newest(("", name))
        return decode(record.data) if record is not None else None
    if not bucket.queued and len(bucket.records) <= len(SYSTEM_CLASSES):
        return None  # only those of the system, and they are nobody's default
    classes = (decode(record.data) for record in bucket.newest_in(""))
    defaults = (entry for entry in classes if entry.get("globalDefault"))
    return min(defaults, key=lambda entry: entry.get("value", 0), default=None)


# --- what a pod gets of its RuntimeClass


_OTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def admit_runtime_class(registry: Registry, pod: RawObject) -> None:
    """Give a new pod what its class says, in place; 403 if there is none or the pod contradicts it."""
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    chosen: RawObject = {}
    if name is not None:
        record = registry.bucket("runtimeclasses", "node.k8s.io").newest(("", name))
        if record is None:
            raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
        chosen = decode(record.data)
    overhead = mapping(chosen, "overhead", "podFixed")
    given = spec.get("overhead")
    if given and not overhead:
        raise _refused(pod, _ALONE)
    same = all(name in overhead and read(given[name]).equals(read(overhead[name])) for name in given or ())
    if given and not (same and len(given) == len(overhead)):
        raise _refused(pod, _OTHER)
    if overhead:
        spec["overhead"] = dict(overhead)
    _place(pod, mapping(chosen, "scheduling"))


def _place(pod: RawObject, scheduling: RawObject) -> None:
    spec, wanted = pod["spec"], mapping(scheduling, "nodeSelector")
    selector = mapping(spec, "nodeSelector")
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            raise _refused(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}",
            )
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}
    if scheduling.get("tolerations"):
        spec["tolerations"] = _merged([*mappings(spec, "tolerations"), *scheduling["tolerations"]])


def _merged(tolerations: list[RawObject]) -> list[RawObject]:
    """Without those that another one covers; of equal ones the first stays."""
    merged: list[RawObject] = []
    for index, one in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != one)
        if not any(_covers(other, one) for other in (*merged, *later)):
            merged.append(one)
    return merged


def _covers(wide: RawObject, narrow: RawObject) -> bool:
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or not exists):
        return False
    if narrow.get("effect", "") != wide.get("effect", "") and wide.get("effect"):
        return False
    if wide.get("effect") == NO_EXECUTE and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if exists:
        return True
    equal = narrow.get("operator", "Equal") == "Equal"
    return bool(equal and narrow.get("value", "") == wide.get("value", ""))


def _refused(pod: RawObject, why: str) -> errors.StatusError:
    return errors.forbidden(("pods", ""), pod["metadata"].get("name") or "", why)
