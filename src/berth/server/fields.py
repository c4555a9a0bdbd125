"""Fields of objects as they came over the wire: what is missing or has another form counts as empty."""

from __future__ import annotations

from typing import Any

from berth.kube.objects import RawObject


def at(obj: object, *names: str) -> Any:  # noqa: ANN401 -- any JSON value
    """The value at a path, None as soon as something is missing."""
    for name in names:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def items(obj: object, *names: str) -> list[Any]:
    found = at(obj, *names) if names else obj
    return found if isinstance(found, list) else []


def mapping(obj: object, *names: str) -> RawObject:
    found = at(obj, *names) if names else obj  # most are asked of a value: one call less
    return found if isinstance(found, dict) else {}


def mappings(obj: object, *names: str) -> list[RawObject]:
    """The mappings in a list; anything else in it counts as an empty one."""
    found = at(obj, *names) if names else obj
    return [item if isinstance(item, dict) else {} for item in found] if isinstance(found, list) else []


def number(obj: object, *names: str) -> int:
    found = at(obj, *names)
    return found if isinstance(found, int) else 0


def annotations_of(obj: RawObject) -> RawObject:
    return mapping(obj, "metadata", "annotations")


def condition(obj: object, kind: str) -> RawObject:
    """The condition of a type, empty if there is none."""
    for found in items(obj, "status", "conditions"):
        if isinstance(found, dict) and found.get("type") == kind:
            return found
    return {}


def is_true(obj: object, kind: str) -> bool:
    return bool(condition(obj, kind).get("status") == "True")


def without(obj: RawObject, *names: str) -> RawObject:
    """The object but for some of its fields."""
    return {name: value for name, value in obj.items() if name not in names}


def upsert_condition(pod: RawObject, condition: RawObject, now: str) -> None:
    """Set a condition in a pod's status; the time moves only when its status does."""
    status = pod.setdefault("status", {})
    conditions = list(status.get("conditions") or ())
    kinds = [item.get("type") for item in conditions]
    place = kinds.index(condition["type"]) if condition["type"] in kinds else len(kinds)
    known = conditions[place] if place < len(kinds) else {}
    moved = known.get("lastTransitionTime") if known.get("status") == condition["status"] else now
    conditions[place : place + 1] = [{"lastProbeTime": None, "lastTransitionTime": moved, **condition}]
    status["conditions"] = conditions
