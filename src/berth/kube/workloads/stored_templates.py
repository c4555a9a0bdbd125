"""What the API server fills in of a pod's spec and of the templates of workloads, as they came over the wire.

Upstream: pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from berth.kube.amounts.quantity import QuantityError, format_quantity
from berth.kube.objects import RawObject
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME

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
    fill(spec, schedulerName=DEFAULT_SCHEDULER_NAME, securityContext={})
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
    for hook in _mapping(container.get("lifecycle")).values():
        _http_get(_mapping(hook))
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
    claim = _mapping(_mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
    if claim:
        claim.setdefault("metadata", {})
        claim["spec"] = claim.get("spec") or {}
        claim["spec"].setdefault("volumeMode", "Filesystem")
    projected = list(map(_mapping, _mapping(volume.get("projected")).get("sources") or ()))
    for source in projected:
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    downward = (_mapping(held.get("downwardAPI")) for held in (volume, *projected))
    for item in (item for held in downward for item in held.get("items") or ()):
        _reference(_mapping(item))
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


def _mapping(value: object) -> RawObject:
    return value if isinstance(value, dict) else {}


def fill(holder: RawObject, **defaults: object) -> None:
    """Give fields that are missing a value."""
    for name, value in defaults.items():
        holder.setdefault(name, value)


def spell_amounts(amounts: RawObject | None) -> None:
    """Spell amounts as the API server does: "0.5" is "500m"."""
    if not amounts:
        return
    for name, raw in amounts.items():
        try:
            amounts[name] = format_quantity(raw)
        except QuantityError:
            continue  # validation names it
