"""PriorityClasses, and which of them a pod gets.

Upstream: pkg/registry/scheduling/priorityclass and plugin/pkg/admission/priority.
"""

from __future__ import annotations

from berth.kube.api_resources import PODS, Resource
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry.checks import forbidden
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.store import Bucket, decode
from berth.server.tables import cluster as tables

_HIGHEST = 1_000_000_000  # for whoever is not the system
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClassStrategy(Strategy):
    """The names of the system's classes are taken, and a class keeps its value."""

    def default(self, obj: RawObject) -> None:
        obj.setdefault("value", 0)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def check(self, obj: RawObject) -> list[FieldError]:
        if obj.get("value", 0) <= _HIGHEST or obj["metadata"].get("name", "").startswith("system-"):
            return []
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        return [forbidden("value", detail)]

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return [
            forbidden(field, f"may not be changed in an update{dot}")
            for field, dot in (("value", "."), ("preemptionPolicy", ""))
            if obj.get(field) != old.get(field)
        ]

    def accept(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        name = obj["metadata"]["name"]
        if old is None and name.startswith("system-") and SYSTEM_CLASSES.get(name) != obj.get("value"):
            why = "priority class names with 'system-' prefix are reserved for system use only"
            raise errors.forbidden(self.resource.plural, self.resource.group, name, why)
        known = _default_class(registry) if obj.get("globalDefault") else None
        if known is not None and known["metadata"]["name"] != name:
            first = known["metadata"]["name"]
            why = f"PriorityClass {first} is already marked as default. Only one default can exist"
            raise errors.forbidden(self.resource.plural, self.resource.group, name, why)


STRATEGIES = (
    PriorityClassStrategy(
        served("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False, short="pc"),
        columns=tables.PRIORITY_CLASS,
    ),
)


# --- what pods get of them


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
    """Set ``spec.priority`` from the pod's class, in place.

    Raises:
        StatusError: there is no such class, or the pod gives a priority of its own (403).
    """
    spec, found = pod["spec"], _resolve(registry, PODS, pod, _OTHER_PRIORITY)
    policy = found.get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy") not in (None, policy):
        detail = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise errors.forbidden("pods", "", pod["metadata"].get("name", ""), detail)
    spec["preemptionPolicy"] = policy


def _resolve(registry: Registry, resource: Resource, obj: RawObject, contradiction: str) -> RawObject:
    """Give an object the priority of the class it names, or else of the default one, which is returned."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    chosen, given = spec.get("priorityClassName") or "", spec.get("priority")
    found = _priority_class(registry, chosen) if chosen else _default_class(registry)
    if chosen and found is None:
        why = f"no PriorityClass with name {chosen} was found"
        raise errors.forbidden(resource.plural, resource.group, name, why)
    value = found["value"] if found is not None else 0
    if given not in (None, value):
        detail = contradiction.format(given=given, value=value)
        raise errors.forbidden(resource.plural, resource.group, name, detail)
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = value
    return found or {}


def _bucket(registry: Registry) -> Bucket:
    return registry.builtin("scheduling.k8s.io", "priorityclasses").bucket


def _priority_class(registry: Registry, name: str) -> RawObject | None:
    record = _bucket(registry).newest(("", name))
    return decode(record.data) if record is not None else None


def _default_class(registry: Registry) -> RawObject | None:
    bucket = _bucket(registry)
    if not bucket.queued and len(bucket.records) <= len(SYSTEM_CLASSES):
        return None  # only those of the system, and they are nobody's default
    classes = [decode(record.data) for record in bucket.newest_in("")]
    defaults = [entry for entry in classes if entry.get("globalDefault")]
    return min(defaults, key=lambda entry: entry.get("value", 0)) if defaults else None
