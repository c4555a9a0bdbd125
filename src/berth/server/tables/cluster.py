"""The columns of nodes, namespaces, events and the other kinds that make up a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from berth.kube.versions import VERSIONS
from berth.kube.well_known import DISRUPTION_TARGET
from berth.server.fields import at, condition, items, mapping, number
from berth.server.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Object,
    age,
    count,
    flag,
    labels,
    selector,
    size,
    text,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"
_LISTED = 3
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _node_status(node: Object, _: float) -> str:
    ready = condition(node, "Ready")
    shown = "Unknown" if not ready else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if at(node, "spec", "unschedulable") else shown


def _roles(node: Object, _: float) -> str:
    held = mapping(node, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in held if key.startswith(_ROLE_PREFIX)}
    roles.add(str(held.get("kubernetes.io/role", "")))
    return ",".join(sorted(roles - {""})) or NONE


def _address(kind: str, node: Object, _: float) -> str:
    found = (each for each in items(node, "status", "addresses") if at(each, "type") == kind)
    return str(at(next(found, None), "address") or NONE)


def _kernel(node: Object, _: float) -> str:
    version = str(at(node, "status", "nodeInfo", "kernelVersion") or UNKNOWN)
    architecture = at(node, "status", "nodeInfo", "architecture")
    return f"{version} ({architecture})" if architecture else version


def _node_info(field: str) -> Callable[[Object, float], str]:
    return text("status", "nodeInfo", field, otherwise=UNKNOWN)


NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    Column("Version", text("status", "nodeInfo", "kubeletVersion")),
    Column("Internal-IP", partial(_address, "InternalIP"), wide=True),
    Column("External-IP", partial(_address, "ExternalIP"), wide=True),
    Column("OS-Image", _node_info("osImage"), wide=True),
    Column("Kernel-Version", _kernel, wide=True),
    Column("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
)

NAMESPACE = (NAME, Column("Status", text("status", "phase")), AGE)
LEASE = (NAME, Column("Holder", text("spec", "holderIdentity")), AGE)
CONFIG_MAP = (NAME, Column("Data", lambda obj, _: size("data")(obj, 0) + size("binaryData")(obj, 0)), AGE)
SECRET = (NAME, Column("Type", text("type")), Column("Data", size("data")), AGE)
PLAIN = (NAME, AGE)
WEBHOOKS = (NAME, Column("Webhooks", size("webhooks"), type="integer"), AGE)
RUNTIME_CLASS = (NAME, Column("Handler", text("handler")), AGE)

PRIORITY_CLASS = (
    NAME,
    Column("Value", count("value"), type="integer"),
    Column("Global-Default", flag("globalDefault"), type="boolean"),
    AGE,
    Column("PreemptionPolicy", text("preemptionPolicy")),
)


# Of every version: an object has the one of its own.
_GROUP_CONDITIONS = tuple(version.pod_group_condition for version in VERSIONS.values())


def _group_workload(group: Object, _: float) -> str:
    older = at(group, "spec", "podGroupTemplateRef", "workload", "workloadName")
    return str(at(group, "spec", "workloadRef", "workloadName") or older or NONE)


def _group_status(group: Object, _: float) -> str:
    disrupted = condition(group, DISRUPTION_TARGET)
    scheduled = next(filter(None, (condition(group, each) for each in _GROUP_CONDITIONS)), None)
    if disrupted:
        return str(disrupted.get("reason", ""))
    if not scheduled:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


POD_GROUP = (
    NAME,
    Column(
        "Policy",
        lambda obj, _: "Gang" if at(obj, "spec", "schedulingPolicy", "gang") is not None else "Basic",
    ),
    Column("Workload", _group_workload),
    Column("Status", _group_status),
    AGE,
)


def _first_seen(event: Object, now: float) -> str:
    first = at(event, "firstTimestamp") or at(event, "deprecatedFirstTimestamp")
    return age(first or at(event, "eventTime"), now)


def _last_seen(event: Object, now: float) -> str:
    series = at(event, "series", "lastObservedTime")
    last = series or at(event, "lastTimestamp") or at(event, "deprecatedLastTimestamp")
    return age(last, now) if last else _first_seen(event, now)


def _involved(event: Object) -> dict[str, Any]:
    return mapping(event, "involvedObject") or mapping(event, "regarding")


def _about(event: Object, _: float) -> str:
    kind, name = str(_involved(event).get("kind", "")).lower(), _involved(event).get("name")
    return f"{kind}/{name}" if name else kind


def _source(event: Object, _: float) -> str:
    source = mapping(event, "source") or mapping(event, "deprecatedSource")
    component = (
        source.get("component") or at(event, "reportingComponent") or at(event, "reportingController") or ""
    )
    host = source.get("host") or at(event, "reportingInstance")
    return f"{component}, {host}" if host else str(component)


def _times(event: Object, _: float) -> int:
    return number(event, "series", "count") or number(event, "count") or number(event, "deprecatedCount") or 1


EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", text("type")),
    Column("Reason", text("reason")),
    Column("Object", _about),
    Column("Subobject", lambda obj, _: str(_involved(obj).get("fieldPath") or ""), wide=True),
    Column("Source", _source, wide=True),
    Column("Message", lambda obj, _: str(at(obj, "message") or at(obj, "note") or "").strip()),
    Column("First Seen", _first_seen, wide=True),
    Column("Count", _times, wide=True),
    NAME._replace(wide=True),
)


def _balancers(obj: Object) -> list[str]:
    found = items(obj, "status", "loadBalancer", "ingress")
    return sorted({str(at(each, "ip") or at(each, "hostname") or "") for each in found} - {""})


def _external_ip(service: Object, _: float) -> str:
    own = [str(each) for each in items(service, "spec", "externalIPs")]
    match at(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            return ",".join([*_balancers(service), *own]) or "<pending>"
        case "ExternalName":
            return str(at(service, "spec", "externalName") or "")
    return UNKNOWN


def _cluster_ip(service: Object, _: float) -> str:
    all_of_them = items(service, "spec", "clusterIPs")
    return str((all_of_them[0] if all_of_them else at(service, "spec", "clusterIP")) or NONE)


def _ports(service: Object, _: float) -> str:
    return (
        ",".join(
            f"{at(each, 'port')}{':' + str(each['nodePort']) if each.get('nodePort') else ''}"
            f"/{at(each, 'protocol') or 'TCP'}"
            for each in items(service, "spec", "ports")
            if isinstance(each, dict)
        )
        or NONE
    )


SERVICE = (
    NAME,
    Column("Type", text("spec", "type")),
    Column("Cluster-IP", _cluster_ip),
    Column("External-IP", _external_ip),
    Column("Port(s)", _ports),
    AGE,
    Column("Selector", lambda obj, _: labels(mapping(obj, "spec", "selector")), wide=True),
)


def _some(found: list[str], otherwise: str = NONE) -> str:
    """The first few, and how many more there are."""
    if len(found) > _LISTED:
        return f"{','.join(found[:_LISTED])} + {len(found) - _LISTED} more..."
    return ",".join(found) or otherwise


def _endpoints(obj: Object, _: float) -> str:
    found: list[str] = []
    for subset in items(obj, "subsets"):
        hosts = [str(at(each, "ip")) for each in items(subset, "addresses")]
        ports = items(subset, "ports")
        found += [f"{host}:{at(port, 'port')}" for port in ports for host in hosts] if ports else hosts
    return _some(found)


ENDPOINTS = (NAME, Column("Endpoints", _endpoints), AGE)
ENDPOINT_SLICE = (
    NAME,
    Column("AddressType", text("addressType")),
    Column(
        "Ports", lambda obj, _: _some([str(at(each, "port") or "*") for each in items(obj, "ports")], UNSET)
    ),
    Column(
        "Endpoints",
        lambda obj, _: _some(
            [str(host) for each in items(obj, "endpoints") for host in items(each, "addresses")], UNSET
        ),
    ),
    AGE,
)

INGRESS = (
    NAME,
    Column("Class", text("spec", "ingressClassName", otherwise=NONE)),
    Column(
        "Hosts",
        lambda obj, _: _some(
            [str(each["host"]) for each in items(obj, "spec", "rules") if at(each, "host")], "*"
        ),
    ),
    Column("Address", lambda obj, _: ",".join(_balancers(obj))),
    Column("Ports", lambda obj, _: "80, 443" if at(obj, "spec", "tls") else "80"),
    AGE,
)
NETWORK_POLICY = (NAME, Column("Pod-Selector", lambda obj, _: selector(at(obj, "spec", "podSelector"))), AGE)


def _default_name(annotation: str, obj: Object, _: float) -> str:
    default = mapping(obj, "metadata", "annotations").get(annotation) == "true"
    return f"{at(obj, 'metadata', 'name')}{' (default)' if default else ''}"


def _parameters(obj: Object, _: float) -> str:
    found = at(obj, "spec", "parameters")
    if not isinstance(found, dict):
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind')}{group}/{found.get('name')}"


INGRESS_CLASS = (
    NAME._replace(cell=partial(_default_name, "ingressclass.kubernetes.io/is-default-class")),
    Column("Controller", text("spec", "controller")),
    Column("Parameters", _parameters),
    AGE,
)
STORAGE_CLASS = (
    NAME._replace(cell=partial(_default_name, "storageclass.kubernetes.io/is-default-class")),
    Column("Provisioner", text("provisioner")),
    Column("ReclaimPolicy", text("reclaimPolicy", otherwise="Delete")),
    Column("VolumeBindingMode", text("volumeBindingMode", otherwise="Immediate")),
    Column("AllowVolumeExpansion", flag("allowVolumeExpansion")),
    AGE,
)


def _phase(obj: Object, _: float) -> str:
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(obj, "status", "phase") or "")


def _access_modes(*path: str) -> Callable[[Object, float], str]:
    return lambda obj, _: ",".join(
        shown for mode, shown in _MODES.items() if mode in items(obj, *path, "accessModes")
    )


def _claim(obj: Object, _: float) -> str:
    found = at(obj, "spec", "claimRef")
    return f"{at(found, 'namespace')}/{at(found, 'name')}" if found else ""


_VOLUME_CLASS = Column("VolumeAttributesClass", text("spec", "volumeAttributesClassName", otherwise=UNSET))
_VOLUME_MODE = Column("VolumeMode", text("spec", "volumeMode", otherwise=UNSET), wide=True)

PERSISTENT_VOLUME = (
    NAME,
    Column("Capacity", text("spec", "capacity", "storage")),
    Column("Access Modes", _access_modes("spec")),
    Column("Reclaim Policy", text("spec", "persistentVolumeReclaimPolicy")),
    Column("Status", _phase),
    Column("Claim", _claim),
    Column("StorageClass", text("spec", "storageClassName")),
    _VOLUME_CLASS,
    Column("Reason", text("status", "reason")),
    AGE,
    _VOLUME_MODE,
)
PERSISTENT_VOLUME_CLAIM = (
    NAME,
    Column("Status", _phase),
    Column("Volume", text("spec", "volumeName")),
    Column("Capacity", text("status", "capacity", "storage")),
    Column("Access Modes", _access_modes("status")),
    Column("StorageClass", text("spec", "storageClassName")),
    _VOLUME_CLASS,
    AGE,
    _VOLUME_MODE,
)
VOLUME_ATTACHMENT = (
    NAME,
    Column("Attacher", text("spec", "attacher")),
    Column("PV", text("spec", "source", "persistentVolumeName")),
    Column("Node", text("spec", "nodeName")),
    Column("Attached", flag("status", "attached"), type="boolean"),
    AGE,
)
CSI_NODE = (NAME, Column("Drivers", size("spec", "drivers"), type="integer"), AGE)
CSI_STORAGE_CAPACITY = (
    NAME,
    Column("StorageClassName", text("storageClassName")),
    Column("Capacity", text("capacity", otherwise=UNSET)),
)


def _claim_state(obj: Object, _: float) -> str:
    deleted = at(obj, "metadata", "deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if at(obj, "status", "allocation") is not None:
        states += ["allocated", "reserved"] if items(obj, "status", "reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


RESOURCE_CLAIM = (NAME, Column("State", _claim_state), AGE)
RESOURCE_SLICE = (
    NAME,
    Column("Node", text("spec", "nodeName", otherwise=UNSET)),
    Column("Driver", text("spec", "driver")),
    Column("Pool", text("spec", "pool", "name")),
    AGE,
)


def _quota(obj: Object, _: float, *, limits: bool) -> str:
    hard, used = mapping(obj, "status", "hard"), mapping(obj, "status", "used")
    return ", ".join(
        f"{name}: {used.get(name, 0)}/{hard[name]}"
        for name in sorted(hard)
        if name.startswith("limits.") == limits
    )


RESOURCE_QUOTA = (
    NAME,
    Column("Request", partial(_quota, limits=False)),
    Column("Limit", partial(_quota, limits=True)),
    AGE,
)


def _subjects(kind: str, obj: Object, _: float) -> str:
    found = [each for each in items(obj, "subjects") if at(each, "kind") == kind]
    return ", ".join(
        f"{each['namespace']}/{each.get('name')}" if at(each, "namespace") else str(at(each, "name"))
        for each in found
    )


ROLE_BINDING = (
    NAME,
    Column("Role", lambda obj, _: f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}"),
    AGE,
    Column("Users", partial(_subjects, "User"), wide=True),
    Column("Groups", partial(_subjects, "Group"), wide=True),
    Column("ServiceAccounts", partial(_subjects, "ServiceAccount"), wide=True),
)
