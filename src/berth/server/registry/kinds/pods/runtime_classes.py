"""RuntimeClasses, and what a pod gets of its own: overhead, and where it can run.

Upstream: pkg/apis/node/validation and plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from berth.kube.amounts.quantity import read
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry import checks
from berth.server.registry.fields import mapping, mappings, spell_amounts, unchanged
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.store import decode
from berth.server.tables import cluster as tables

_OTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_ALONE = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClassStrategy(Strategy):
    """A class keeps its handler."""

    def default(self, obj: RawObject) -> None:
        spell_amounts(mapping(mapping(obj.get("overhead")).get("podFixed")))
        for toleration in mappings(mapping(obj.get("scheduling")).get("tolerations")):
            toleration.setdefault("operator", "Equal")

    def check(self, obj: RawObject) -> checks.Found:
        return checks.label("handler", obj.get("handler"))

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return unchanged(obj, old, "handler")


STRATEGIES = (
    RuntimeClassStrategy(
        served("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False),
        columns=tables.RUNTIME_CLASS,
        create_on_update=True,
    ),
)


def admit(registry: Registry, pod: RawObject) -> None:
    """Give a new pod what its class says, in place.

    Raises:
        StatusError: there is no such class, or the pod contradicts it (403).
    """
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    chosen = _class_of(registry, pod, name) if name is not None else {}
    overhead = mapping(mapping(chosen.get("overhead")).get("podFixed"))
    given = spec.get("overhead")
    if given and not overhead:
        raise _refused(pod, _ALONE)
    if given and not _same(given, overhead):
        raise _refused(pod, _OTHER)
    if overhead:
        spec["overhead"] = dict(overhead)
    _place(pod, mapping(chosen.get("scheduling")))


def _class_of(registry: Registry, pod: RawObject, name: str) -> RawObject:
    record = registry.builtin("node.k8s.io", "runtimeclasses").bucket.newest(("", name))
    if record is None:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    return decode(record.data)


def _place(pod: RawObject, scheduling: RawObject) -> None:
    spec, wanted = pod["spec"], mapping(scheduling.get("nodeSelector"))
    selector = mapping(spec.get("nodeSelector"))
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
        spec["tolerations"] = _merged([*mappings(spec.get("tolerations")), *scheduling["tolerations"]])


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
    if wide.get("effect") == "NoExecute" and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if exists:
        return True
    equal = narrow.get("operator", "Equal") == "Equal"
    return bool(equal and narrow.get("value", "") == wide.get("value", ""))


def _same(one: RawObject, other: RawObject) -> bool:
    return one.keys() == other.keys() and all(read(one[name]).equals(read(other[name])) for name in one)


def _refused(pod: RawObject, why: str) -> errors.StatusError:
    return errors.forbidden("pods", "", pod["metadata"].get("name") or "", why)
