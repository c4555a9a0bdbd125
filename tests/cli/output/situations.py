"""Thirty-two reasons to ask about a pod `p`: what a cluster of any size holds in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.builders import HOSTNAME, REQUIRED, ZONE

Json = dict[str, Any]
Situation = Callable[[int], list[Json]]

ROLE = "example.com/role"


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
    return {"affinity": {kind: {REQUIRED: [stated]}}}


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


def long_names(count: int) -> list[Json]:
    """Names as clouds give them, with a rule that only some nodes break, and scores that differ."""
    made = nodes(count)
    for i, each in enumerate(made):
        name = f"ip-10-0-{i // 256}-{i % 256}.eu-central-1.compute.internal"
        each["metadata"]["name"] = each["metadata"]["labels"][HOSTNAME] = name
        if i % 2:
            each["spec"]["taints"] = [
                {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"}
            ]
    web = pod("web-0", labels={"app": "web"}, nodeName=made[0]["metadata"]["name"])
    return [*made, web, pod(labels={"app": "web"}, **spread(ZONE, whenUnsatisfiable="ScheduleAnyway"))]


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


def owned(made: Json, kind: str, name: str) -> Json:
    """The pod as one of a workload's."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def near_peer_label(count: int) -> list[Json]:
    cache = [pod(f"cache-{i}", labels={"app": "cache"}, **on(i)) for i in range(2)]
    return [*nodes(count), *cache, pod(**near("podAffinity", "cahce", ZONE))]


def several_workloads_in_the_way(count: int) -> list[Json]:
    """Every node has a pod that it must not be with: of two workloads, or of none."""

    def replica(i: int) -> Json:
        made = pod(f"busy-{i}", labels={"noisy": "yes"}, **on(i))
        return owned(made, "StatefulSet", ("queue", "search")[i % 3]) if i % 3 < 2 else made

    selector = {"labelSelector": {"matchLabels": {"noisy": "yes"}}, "topologyKey": HOSTNAME}
    rule: Json = {"affinity": {"podAntiAffinity": {REQUIRED: [selector]}}}
    return [*nodes(count), *(replica(i) for i in range(count)), pod(**rule)]


def kept_away(count: int) -> list[Json]:
    rule = near("podAntiAffinity", "batch", ZONE)
    ledgers = [owned(pod(f"ledger-{i}", **rule, **on(i)), "StatefulSet", "ledger") for i in range(3)]
    return [*nodes(count), *ledgers, pod(labels={"app": "batch"})]


def two_replica_sets(count: int) -> list[Json]:
    """A ReplicaSet that takes the place of another, by hand: no label says which one is new."""
    rule, labels = near("podAntiAffinity", "web", HOSTNAME), {"app": "web"}
    old = [
        owned(pod(f"web-1-{i}", labels=labels, **rule, **on(i)), "ReplicaSet", "web-1") for i in range(count)
    ]
    return [*nodes(count), *old, owned(pod(labels=labels, **rule), "ReplicaSet", "web-2")]


def few_nodes_by_affinity(count: int) -> list[Json]:
    pool = [node(i, labels={"pool": "web"}) if i < 3 else node(i) for i in range(count)]
    rule, labels = near("podAntiAffinity", "web", HOSTNAME), {"app": "web"}
    taken = [owned(pod(f"web-{i}", labels=labels, **rule, **on(i)), "ReplicaSet", "web") for i in range(3)]
    asking = owned(pod(labels=labels, nodeSelector={"pool": "web"}, **rule), "ReplicaSet", "web")
    return [*pool, *taken, asking]


def one_node_tainted(count: int) -> list[Json]:
    """A replica on every node but the one that none of them tolerates."""
    *made, _, asking = more_replicas_than_nodes(count)
    made[count - 1] = node(count - 1, taints=[{"key": "gpu", "value": "present", "effect": "NoSchedule"}])
    return [*made, asking]


def two_affinities(count: int) -> list[Json]:
    rule = near("podAffinity", "cache", ZONE)
    rule["affinity"]["podAffinity"][REQUIRED] += near("podAffinity", "db", ZONE)["affinity"]["podAffinity"][
        REQUIRED
    ]
    return [*nodes(count), pod("cache", labels={"app": "cache"}, **on(0)), pod(**rule)]


def own_node_full(count: int) -> list[Json]:
    return [*nodes(count), pod("big", cpu="8", **on(3)), pod(nodeSelector={HOSTNAME: "node-0003"})]


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


def emptiest_zone_closed(count: int) -> list[Json]:
    """Zone 3 is the emptiest; its nodes are full, cordoned or tainted."""
    made = nodes(count)
    full = [pod(f"full-{i}", cpu="8", **on(i)) for i in range(2, count, 9)]
    for i in range(5, count, 9):
        made[i]["spec"]["unschedulable"] = True
    for i in range(8, count, 9):
        made[i]["spec"]["taints"] = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    return [*made, *full, *_web(0, 1), pod(labels={"app": "web"}, **spread(ZONE))]


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
    return [*roles, pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [wanted]}}})]


def resources(count: int) -> list[Json]:
    used = [pod(f"used-{i}", cpu=f"{4000 + 500 * (i % 5)}m", **on(i)) for i in range(count)]
    return [*nodes(count), *used, pod(cpu="6")]


def many_reasons(count: int) -> list[Json]:
    """Only a few nodes come close; most are other teams' or of another kind."""

    def made(i: int) -> Json:
        if i % 3 == 0:
            return node(i, labels={"disk": "ssd", "pool": "general"})
        if i % 3 == 1:
            return node(i, labels={"disk": "hdd", "pool": "general"})
        taints = [{"key": "team", "value": f"t{i % 2}", "effect": "NoSchedule"}]
        return node(i, labels={"disk": "ssd", "pool": "teams"}, taints=taints)

    used = [pod(f"used-{i}", cpu="6", **on(i)) for i in range(0, count, 3)]
    return [*(made(i) for i in range(count)), *used, pod(cpu="4", nodeSelector={"disk": "ssd"})]


def own_taints(count: int) -> list[Json]:
    """A taint of its own on every node."""
    taints = [[{"key": "host", "value": f"h{i}", "effect": "NoSchedule"}] for i in range(count)]
    return [*(node(i, taints=taints[i]) for i in range(count)), pod()]


def too_large(count: int) -> list[Json]:
    """Larger than some nodes, and than what is left on the others."""
    made = nodes(count)
    for each in made[::2]:
        each["status"]["capacity"]["cpu"] = "4"
    return [*made, *(pod(f"used-{i}", cpu="3", **on(i)) for i in range(1, count, 2)), pod(cpu="6")]


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


def claim_not_found(count: int) -> list[Json]:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "other", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return [*nodes(count), claim, pod(volumes=mounted)]


def _claimed(count: int, **state: Any) -> list[Json]:
    """A claim that a server has seen, and a class that it has nearly the name of."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop", "uid": "u", **state.pop("metadata", {})},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **state.pop("spec", {}),
        },
        "status": {"phase": "Pending", **state},
    }
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "csi.example.com"}
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return [*nodes(count), claim, {**made, "metadata": {"name": "standard"}}, pod(volumes=mounted)]


def class_not_found(count: int) -> list[Json]:
    return _claimed(count, spec={"storageClassName": "standrad"})


def claim_lost(count: int) -> list[Json]:
    return _claimed(count, phase="Lost", spec={"storageClassName": "standard", "volumeName": "pv-7"})


def node_not_ready(count: int) -> list[Json]:
    made = nodes(count)
    reason = {"reason": "KubeletNotReady", "message": "container runtime is down"}
    made[0]["status"]["conditions"] = [{"type": "Ready", "status": "False", **reason}]
    return [*made, pod(**on(0))]


SITUATIONS: dict[str, Situation] = {
    made.__name__: made
    for made in (
        pod_group,
        long_names,
        other_scheduler,
        lower_priority,
        preemption,
        other_namespace,
        wrong_namespace_list,
        wrong_namespace_selector,
        self_affinity_elsewhere,
        near_peer_label,
        several_workloads_in_the_way,
        kept_away,
        more_replicas_than_nodes,
        two_replica_sets,
        few_nodes_by_affinity,
        one_node_tainted,
        two_affinities,
        own_node_full,
        rollout,
        few_domains,
        missing_topology_key,
        tainted_rack,
        emptiest_zone_closed,
        near_toleration,
        taint,
        near_value,
        near_key,
        resources,
        many_reasons,
        own_taints,
        too_large,
        host_port,
        claim_elsewhere,
        claim_not_found,
        class_not_found,
        claim_lost,
        node_not_ready,
    )
}
