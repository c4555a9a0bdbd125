"""What pods and the templates of workloads have in common; and PodTemplates."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from berth.kube.gates import FeatureGates, drop_disabled_fields
from berth.kube.objects import ObjectMeta, Pod, RawObject
from berth.kube.ownership import controller_of
from berth.kube.validation.errors import FieldError
from berth.server.fields import at, mapping
from berth.server.registry.checks import containers_of, decode_as
from berth.server.registry.pod_rules.specs import in_order, pod_spec_errors
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.tables import NAME, Column, containers, labels


def drop_disabled(pod: RawObject, old: RawObject | None, gates: FeatureGates) -> None:
    """Drop the fields of disabled gates that the stored pod, or template, does not use, in place."""
    if gates.all_enabled:
        return
    view = _pod(pod)
    kept = drop_disabled_fields(view, _pod(old) if old is not None else None, gates)
    if kept is not view:
        write_back(pod, view, kept)


def drop_unserved(spec: RawObject) -> None:
    """Drop, in place, what is behind a gate that is off by default: the signal that ends a container."""
    for container in containers_of(spec):
        lifecycle = container.get("lifecycle")
        if lifecycle and lifecycle.pop("stopSignal", None) and not lifecycle:
            del container["lifecycle"]


def _pod(holder: RawObject) -> Pod:
    return decode_as({"metadata": {}, "spec": holder["spec"]}, Pod)


def write_back(pod: RawObject, before: Pod, after: Pod) -> None:
    """Bring what changed between two views of a pod into it, in place."""
    spec = pod["spec"]
    if after.spec.affinity is not before.spec.affinity:
        _set(spec, "affinity", after.spec.affinity)
    if after.spec.topology_spread_constraints is not before.spec.topology_spread_constraints:
        _set(spec, "topologySpreadConstraints", after.spec.topology_spread_constraints)
    if after.spec.resources is not before.spec.resources and after.spec.resources is not None:
        spec["resources"] = {**spec["resources"], **msgspec.to_builtins(after.spec.resources)}


def _set(spec: RawObject, name: str, value: object) -> None:
    if value is None:
        spec.pop(name, None)
    else:
        spec[name] = msgspec.to_builtins(value)


@dataclass(eq=False, kw_only=True)
class TemplatedStrategy(Strategy):
    """A kind that pods are made of; upstream drops the fields of disabled gates there, too.

    Not from what a controller makes: it copies its own template, which was looked at when it was written.
    If the copy were another, it would not be known again, and made anew for ever.
    """

    template: tuple[str, ...] = ("spec", "template")  # where it is

    def prepare_input(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        template = self._template(obj)
        if template is not None and controller_of(decode_as(obj["metadata"], ObjectMeta)) is None:
            drop_disabled(template, self._template(old), registry.gates)
        super().prepare_input(registry, obj, old)

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        template = self._template(obj)
        if template is not None:
            drop_unserved(template["spec"])
        found = super().judge(registry, obj, old)
        if template is None or (old is not None and template == self._template(old)):
            return found
        path = ".".join((*self.template, "spec"))
        return in_order(found, list(pod_spec_errors(template["spec"], path)), path)

    def _template(self, obj: RawObject | None) -> RawObject | None:
        """The template, if it has a spec."""
        found: RawObject | None = at(obj, *self.template)
        return found if isinstance(at(found, "spec"), dict) else None


STRATEGIES = (
    TemplatedStrategy(
        served("v1", "PodTemplate"),
        columns=(
            NAME,
            *(column._replace(wide=False) for column in containers("template")),
            Column("Pod Labels", lambda obj, _: labels(mapping(obj, "template", "metadata", "labels"))),
        ),
        template=("template",),
        returns_deleted=True,
    ),
)
