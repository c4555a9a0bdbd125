"""What pods and the templates of workloads have in common; and PodTemplates.

Upstream: pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from berth.kube.gates import FeatureGates, drop_disabled_fields
from berth.kube.objects import ObjectMeta, Pod, RawObject
from berth.kube.ownership import controller_of
from berth.kube.validation.errors import FieldError
from berth.server.fields import at, mapping, mappings
from berth.server.registry.checks import decode_as, fill, spec_of, spell_amounts
from berth.server.registry.pod_rules.specs import in_order, pod_spec_errors
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.tables import workloads as tables

_TOKEN_SECONDS = 3600
_MODE = {"defaultMode": 420}
_VOLUMES: dict[str, RawObject] = {
    "configMap": _MODE,
    "secret": _MODE,
    "projected": {**_MODE, "sources": None},
    "downwardAPI": _MODE,
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_pod_spec(spec: RawObject, *, pod: bool = False) -> None:
    """Fill in a pod spec; `pod`: it is a pod's own, not that of a template."""
    fill(spec, restartPolicy="Always", terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst")
    fill(spec, schedulerName="default-scheduler", securityContext={})
    host_network = bool(spec.get("hostNetwork"))
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _container(container, host_network=host_network, pod=pod)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    if pod:
        spec.setdefault("enableServiceLinks", True)


def _container(container: RawObject, *, host_network: bool, pod: bool) -> None:
    resources = container.setdefault("resources", {})
    spell_amounts(resources.get("requests"))
    spell_amounts(resources.get("limits"))
    fill(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
    if pod and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _probe(container[name])
    for hook in mapping(container.get("lifecycle")).values():
        _http_get(mapping(hook))
    for variable in container.get("env") or ():
        if variable.get("valueFrom"):
            _reference(variable["valueFrom"])


def _pull_policy(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2]
    tag = name.partition(":")[2]
    return "Always" if tag == "latest" or (not tag and "@" not in image) else "IfNotPresent"


def _fill_empty(holder: RawObject, **defaults: object) -> None:
    """Give fields that are missing or empty a value."""
    holder.update({name: value for name, value in defaults.items() if not holder.get(name)})


def _probe(probe: RawObject) -> None:
    _fill_empty(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _http_get(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http_get(handler: RawObject) -> None:
    if handler.get("httpGet") is not None:
        _fill_empty(handler["httpGet"], path="/", scheme="HTTP")


def _reference(holder: RawObject) -> None:
    """To a field of the pod, or to an amount of one of its containers."""
    if holder.get("fieldRef") is not None:
        _fill_empty(holder["fieldRef"], apiVersion="v1")
    if holder.get("resourceFieldRef") is not None:
        holder["resourceFieldRef"].setdefault("divisor", "0")


def _volume(volume: RawObject) -> None:
    for name, defaults in _VOLUMES.items():
        if volume.get(name) is not None:
            fill(volume[name], **defaults)
    claim = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
    if claim:
        claim.setdefault("metadata", {})
        spec_of(claim).setdefault("volumeMode", "Filesystem")
    projected = mappings(mapping(volume.get("projected")).get("sources"))
    for source in projected:
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    downward = (mapping(volume.get("downwardAPI")), *(mapping(one.get("downwardAPI")) for one in projected))
    for item in (item for held in downward for item in mappings(held.get("items"))):
        _reference(item)
    if volume.get("image") is not None:
        _fill_empty(volume["image"], pullPolicy=_pull_policy(volume["image"].get("reference") or ""))
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def default_template(spec: RawObject) -> None:
    """Fill in the template in a workload's spec."""
    template = spec.get("template")
    if isinstance(template, dict):
        metadata = template.setdefault("metadata", {})
        if isinstance(metadata, dict):
            metadata.setdefault("creationTimestamp", None)
        if isinstance(template.get("spec"), dict):
            default_pod_spec(template["spec"])


# --- switched off ---------------------------------------------------------------------------------


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
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
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


class TemplatedStrategy(Strategy):
    """A kind that pods are made of; upstream drops the fields of disabled gates there, too.

    Not from what a controller makes: it copies its own template, which was looked at when it was written.
    If the copy were another, it would not be known again, and made anew for ever.
    """

    template: ClassVar[tuple[str, ...]] = ("spec", "template")

    def settle(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        template = self._template(obj)
        if template is not None and controller_of(decode_as(obj["metadata"], ObjectMeta)) is None:
            drop_disabled(template, self._template(old), registry.gates)
        super().settle(registry, obj, old)

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        template = self._template(obj)
        if template is not None:
            drop_unserved(template["spec"])
        found = super().judge(registry, obj, old)
        if template is None or (old is not None and template == self._template(old)):
            return found
        path = ".".join((*self.template, "spec"))
        return in_order(found, pod_spec_errors(template["spec"], path), path)

    def _template(self, obj: RawObject | None) -> RawObject | None:
        """The template, if it has a spec."""
        found: RawObject | None = at(obj, *self.template)
        return found if isinstance(at(found, "spec"), dict) else None


class PodTemplateStrategy(TemplatedStrategy):
    """Nothing but a template."""

    template = ("template",)


STRATEGIES = (
    PodTemplateStrategy(
        served("v1", "PodTemplate"),
        columns=tables.POD_TEMPLATE,
        returns_deleted=True,
    ),
)
