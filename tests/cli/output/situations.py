"""Twenty-one reasons to ask about a pod `p`: what a cluster of any size holds in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Situation = Callable[[int], list[Json]]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ROLE = "example.com/role"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(number: int, *, labels: Json | None = None, taints: list[Json] | None = None) -> Json:
    name = f"node-{number:04d}"
    own = {HOSTNAME: name, ZONE: f"zone-{number % 3 + 1}", **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "spec": {"taints": taints or []},
        "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


def nodes(count: int) -> list[Json]:
    return [node(number) for number in range(count)]


def pod(
    name: str = "p", *, namespace: str = "shop", cpu: str = "1", labels: Json | None = None, **spec: Any
) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def on(number: int) -> Json:
    return {"nodeName": f"node-{number:04d}"}


def namespaces(*names: str) -> list[Json]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def near(kind: str, app: str, key: str, **term: Any) -> Json:
    stated = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **term}
    return {"affinity": {kind: {_REQUIRED: [stated]}}}


def spread(key: str, **more: Any) -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


# --- whose turn it is ---------------------------------------------------------------------------


def pod_group(count: int) -> list[Json]:
    wanted = 8 * count + 4
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "shop"},
        "spec": {"minMember": wanted},
    }
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    names = ["p", *(f"m{i}" for i in range(wanted - 1))]
    return [*nodes(count), group, *(pod(name, labels=labels) for name in names)]


def other_scheduler(count: int) -> list[Json]:
    return [*nodes(count), pod(schedulerName="volcano")]


def lower_priority(count: int) -> list[Json]:
    used = [pod(f"used-{i}", cpu="6", priority=1000, **on(i)) for i in range(count)]
    low = [pod(f"low-{i}", cpu="2", priority=0) for i in range(count)]
    return [*nodes(count), *used, *low, pod(cpu="4", priority=900)]


def preemption(count: int) -> list[Json]:
    used = [pod(f"low-{i}", cpu="6", priority=0, **on(i)) for i in range(count)]
    return [*nodes(count), *used, pod(cpu="4", priority=900)]


# --- peers ----------------------------------------------------------------------------------------


def _cache(count: int, **term: Any) -> list[Json]:
    cache = pod("cache-0", namespace="data", labels={"app": "cache"}, **on(0))
    return [
        *nodes(count),
        *namespaces("shop", "data"),
        cache,
        pod(**near("podAffinity", "cache", ZONE, **term)),
    ]


def other_namespace(count: int) -> list[Json]:
    return _cache(count)


def wrong_namespace_list(count: int) -> list[Json]:
    return _cache(count, namespaces=["dat"])


def wrong_namespace_selector(count: int) -> list[Json]:
    return _cache(count, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "dta"}})


def self_affinity_elsewhere(count: int) -> list[Json]:
    rule = near("podAffinity", "web", ZONE, namespaces=["data"])
    return [*nodes(count), *namespaces("shop", "data"), pod(labels={"app": "web"}, **rule)]


def more_replicas_than_nodes(count: int) -> list[Json]:
    rule, labels = near("podAntiAffinity", "web", HOSTNAME), {"app": "web"}
    return [
        *nodes(count),
        *(pod(f"web-{i}", labels=labels, **rule, **on(i)) for i in range(count)),
        pod(labels=labels, **rule),
    ]


def rollout(count: int) -> list[Json]:
    rule = near("podAntiAffinity", "web", HOSTNAME)

    def replica(name: str, revision: str, **spec: Any) -> Json:
        made = pod(name, labels={"app": "web", "pod-template-hash": revision}, **rule, **spec)
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"web-{revision}",
            "uid": revision,
            "controller": True,
        }
        made["metadata"]["ownerReferences"] = [owner]
        return made

    old = [replica(f"web-old-{i}", "old", **on(i)) for i in range(count)]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod(**rule)["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        },
    }
    return [*nodes(count), deployment, *old, replica("p", "new")]


# --- spreading ------------------------------------------------------------------------------------


def _web(*numbers: int) -> list[Json]:
    return [pod(f"web-{i}", labels={"app": "web"}, **on(i)) for i in numbers]


def few_domains(count: int) -> list[Json]:
    return [*nodes(count), *_web(0, 1, 2), pod(labels={"app": "web"}, **spread(ZONE, minDomains=4))]


def missing_topology_key(count: int) -> list[Json]:
    return [*nodes(count), pod(labels={"app": "web"}, **spread("example.com/rack"))]


def tainted_rack(count: int) -> list[Json]:
    racks = [node(i, labels={"rack": f"r{i % 2}"}) for i in range(count - 1)]
    db = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    last = node(count - 1, labels={"rack": "db"}, taints=db)
    return [*racks, last, *_web(0, 1), pod(labels={"app": "web"}, **spread("rack"))]


# --- nodes ----------------------------------------------------------------------------------------


def near_toleration(count: int) -> list[Json]:
    gpu = [{"key": "gpu", "value": "present", "effect": "NoSchedule"}]
    tolerated = [{"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    return [*(node(i, taints=gpu) for i in range(count)), pod(tolerations=tolerated)]


def taint(count: int) -> list[Json]:
    return [*(node(i, taints=[{"key": "spot", "effect": "NoSchedule"}]) for i in range(count)), pod()]


def near_value(count: int) -> list[Json]:
    return [*nodes(count), pod(nodeSelector={ZONE: "zone1"})]


def near_key(count: int) -> list[Json]:
    roles = [node(i, labels={ROLE: "web"}) for i in range(count)]
    wanted = {"matchExpressions": [{"key": "example.com/roles", "operator": "In", "values": ["web"]}]}
    return [*roles, pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [wanted]}}})]


def resources(count: int) -> list[Json]:
    used = [pod(f"used-{i}", cpu=f"{4000 + 500 * (i % 5)}m", **on(i)) for i in range(count)]
    return [*nodes(count), *used, pod(cpu="6")]


def host_port(count: int) -> list[Json]:
    port = [{"containerPort": 80, "hostPort": 80}]
    taken = [pod(f"proxy-{i}", **on(i)) for i in range(count)]
    asking = pod()
    for each in (*taken, asking):
        each["spec"]["containers"][0]["ports"] = port
    return [*nodes(count), *taken, asking]


def claim_elsewhere(count: int) -> list[Json]:
    zone4 = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-4"]}]}]
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv-7"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": {"required": zone4},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv-7",
        },
        "status": {"phase": "Bound"},
    }
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return [*nodes(count), volume, claim, pod(volumes=mounted)]


def node_not_ready(count: int) -> list[Json]:
    made = nodes(count)
    reason = {"reason": "KubeletNotReady", "message": "container runtime is down"}
    made[0]["status"]["conditions"] = [{"type": "Ready", "status": "False", **reason}]
    return [*made, pod(**on(0))]


SITUATIONS: dict[str, Situation] = {
    made.__name__: made
    for made in (
        pod_group,
        other_scheduler,
        lower_priority,
        preemption,
        other_namespace,
        wrong_namespace_list,
        wrong_namespace_selector,
        self_affinity_elsewhere,
        more_replicas_than_nodes,
        rollout,
        few_domains,
        missing_topology_key,
        tainted_rack,
        near_toleration,
        taint,
        near_value,
        near_key,
        resources,
        host_port,
        claim_elsewhere,
        node_not_ready,
    )
}
