"""Defaults the API server writes into objects, on the mapping that came over the wire.

Upstream: pkg/apis/{core,apps,batch}/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.kube.objects import RawObject
from berth.kube.quantity import QuantityError, format_quantity

_TOLERATION_SECONDS = 300
_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def apply(group: str, kind: str, obj: RawObject) -> None:
    """Fill in what a created or updated object of a built-in kind leaves out."""
    default = _DEFAULTS.get((group, kind))
    if default is not None:
        default(obj)


def _spec(obj: RawObject) -> RawObject:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _pod(pod: RawObject) -> None:
    pod_spec(_spec(pod), pod=True)


def pod_spec(spec: RawObject, *, pod: bool = False) -> None:
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


def _canonical(amounts: RawObject | None) -> None:
    """Spell amounts as the API server does: "0.5" is "500m"."""
    for name, raw in (amounts or {}).items():
        try:
            amounts[name] = format_quantity(raw)  # type: ignore[index]  # there is a first one
        except QuantityError:
            continue  # validation names it


def _container(container: RawObject, *, host_network: bool, pod: bool) -> None:
    resources = container.setdefault("resources", {})
    _canonical(resources.get("requests"))
    _canonical(resources.get("limits"))
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


def admit_pod(spec: RawObject) -> None:
    """What admission plugins that are on by default add to a new pod."""
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    tolerations = list(spec.get("tolerations") or ())
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def _covers(toleration: RawObject, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


# --- workloads -----------------------------------------------------------------------------------


def _template(spec: RawObject) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        metadata = template.setdefault("metadata", {})
        if isinstance(metadata, dict):
            metadata.setdefault("creationTimestamp", None)
        if isinstance(template.get("spec"), dict):
            pod_spec(template["spec"])


def _deployment(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **rolling}
    _template(spec)


def _replica_set(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    _template(spec)


def _stateful_set(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"partition": 0, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    _template(spec)


def _daemon_set(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **rolling}
    _template(spec)


def _job(obj: RawObject) -> None:
    job_spec(_spec(obj))


def job_spec(spec: RawObject) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )
    _template(spec)


def _cron_job(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.get("jobTemplate")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        inner = template["spec"].get("template")
        if isinstance(inner, dict) and isinstance(inner.get("spec"), dict):
            pod_spec(inner["spec"])


# --- the rest --------------------------------------------------------------------------------------


def _service(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _namespace(obj: RawObject) -> None:
    metadata = obj["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            "kubernetes.io/metadata.name": metadata["name"],
        }
    spec = _spec(obj)
    spec.setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _node(obj: RawObject) -> None:
    status = obj.get("status")
    if isinstance(status, dict):
        _canonical(status.get("capacity"))
        _canonical(status.get("allocatable"))
    if isinstance(status, dict) and status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    _spec(obj)


def _priority_class(obj: RawObject) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _claim(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.get("resources")
    if isinstance(resources, dict):
        _canonical(resources.get("requests"))
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _volume_object(obj: RawObject) -> None:
    spec = _spec(obj)
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    _canonical(spec.get("capacity"))
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _storage_class(obj: RawObject) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _secret(obj: RawObject) -> None:
    obj.setdefault("type", "Opaque")


def _event(obj: RawObject) -> None:
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")
    obj.setdefault("source", {})


_DEFAULTS: dict[tuple[str, str], Callable[[RawObject], None]] = {
    ("", "Pod"): _pod,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "Service"): _service,
    ("", "Secret"): _secret,
    ("", "Event"): _event,
    ("", "ReplicationController"): _replica_set,
    ("", "PersistentVolume"): _volume_object,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
}
