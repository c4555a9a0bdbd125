"""The defaults of pod specs and templates, which pods and workloads share; and PodTemplates.

Upstream: pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.server.registry.fields import spell_amounts
from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.tables import workloads as tables


def default_pod_spec(spec: RawObject, *, pod: bool = False) -> None:
    """Fill in a pod spec; `pod`: it is a pod's own, not that of a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    host_network = bool(spec.get("hostNetwork"))
    for container in spec.get("initContainers") or ():
        _container(container, host_network=host_network, pod=pod)
    for container in spec.get("containers") or ():
        _container(container, host_network=host_network, pod=pod)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    if pod:
        spec.setdefault("enableServiceLinks", True)


def _container(container: RawObject, *, host_network: bool, pod: bool) -> None:
    resources = container.setdefault("resources", {})
    spell_amounts(resources.get("requests"))
    spell_amounts(resources.get("limits"))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
    if pod and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _probe(container[name])


def _pull_policy(image: str) -> str:
    name = image.partition("@")[0].rpartition("/")[2]
    tag = name.partition(":")[2]
    return "Always" if tag == "latest" or (not tag and "@" not in image) else "IfNotPresent"


def _probe(probe: RawObject) -> None:
    defaults = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    for name, value in defaults.items():
        probe.setdefault(name, value)
    if probe.get("httpGet"):
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: RawObject) -> None:
    for name in ("configMap", "secret", "projected", "downwardAPI"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", 420)
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


STRATEGIES = (
    Strategy(
        served("v1", "podtemplates", "PodTemplate"),
        columns=tables.POD_TEMPLATE,
        returns_deleted=True,
    ),
)
