"""One test's part of a fleet: clusters with a label of its own, workloads and bindings in its namespace.

There is no policy controller on a bare API server: bindings are made here, as Karmada's detector makes
them, which does not copy the labels of workloads.
"""

from __future__ import annotations

from typing import Any

from berth.fleet.scheduler.reasons import CLAIMING_LABELS
from berth.kube.karmada import binding_name
from tests.support.api.client import MERGE, Json
from tests.support.api.servers import Backend
from tests.support.fleet.builders import (
    BindingBuilder,
    ClusterBuilder,
    clusters_that,
    make_binding,
    make_cluster,
)
from tests.support.worlds.cluster import ClusterWorld, manifest

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
POLICY, WORK = "/apis/policy.karmada.io/v1alpha1", "/apis/work.karmada.io/v1alpha2"
LEASES = "/apis/coordination.k8s.io/v1"
GROUP = "karmada.io/group"
DEPLOYMENT, JOB = ("apps/v1", "Deployment"), ("batch/v1", "Job")
FLINK = ("flink.apache.org/v1beta1", "FlinkDeployment")
_LABEL = "world"
_PATHS = {
    DEPLOYMENT: ("/apis/apps/v1", "deployments"),
    JOB: ("/apis/batch/v1", "jobs"),
    FLINK: ("/apis/flink.apache.org/v1beta1", "flinkdeployments"),
}

Kind = tuple[str, str]
Labels = dict[str, str]


class FleetWorld(ClusterWorld):
    def __init__(self, backend: Backend, namespace: str, scheduler_name: str) -> None:
        super().__init__(backend, namespace, scheduler_name)
        self._clusters: list[str] = []

    # --- making -----------------------------------------------------------------------------------

    def clusters(self, *names: str) -> None:
        for name in names:
            self.cluster(make_cluster(name))

    def cluster(self, builder: ClusterBuilder) -> None:
        body = manifest(builder.labels({_LABEL: self.namespace}).apis(*FLINK).build())
        del body["metadata"]["uid"]
        name = body["metadata"]["name"]
        spec = {"syncMode": "Push", **body.get("spec", {})}
        self.make(CLUSTERS, {**body, **_typed("cluster.karmada.io/v1alpha1", "Cluster"), "spec": spec})
        self._clusters.append(name)
        # Where the status is a subresource it has to be written on its own.
        self.patch(f"{CLUSTERS}/{name}/status", {"status": body["status"]})

    def policy(self, name: str, annotations: Labels | None = None, **placement: Any) -> None:
        """A policy that is only there to be referred to."""
        self.make(
            self.path("propagationpolicies", prefix=POLICY),
            {
                **_typed("policy.karmada.io/v1alpha1", "PropagationPolicy"),
                "metadata": {"name": name, "annotations": annotations or {}},
                "spec": {
                    "schedulerName": self.scheduler_name,
                    "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody"}],
                    "placement": placement,
                },
            },
        )

    def workload(
        self, name: str, labels: Labels, kind: Kind = DEPLOYMENT, annotations: Labels | None = None
    ) -> Json:
        prefix, plural = _PATHS[kind]
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        return self.make(
            self.path(plural, prefix=prefix),
            {**_typed(*kind), "metadata": metadata, "spec": _spec(kind, name)},
        )

    def bind(self, builder: BindingBuilder, workload: Json | None = None, policy: str = "") -> str:
        """Create a binding for this world's clusters, unless it says which; the name of its workload."""
        binding = builder.build()
        if binding.spec.placement is not None and binding.spec.placement.cluster_affinity is None:
            builder = builder.affinity(to=clusters_that(labels={_LABEL: self.namespace}))
        if policy:
            builder = builder.labels({CLAIMING_LABELS[0]: f"id-of-{policy}"}).annotations(
                {
                    "propagationpolicy.karmada.io/name": policy,
                    "propagationpolicy.karmada.io/namespace": self.namespace,
                }
            )
        if binding.spec.scheduler_name is None:
            builder = builder.scheduler(self.scheduler_name)
        body = manifest(builder.namespace(self.namespace).build())
        for given in ("uid", "resourceVersion", "generation"):
            body["metadata"].pop(given, None)
        body.pop("status", None)
        if workload is not None:
            self._refer(body, workload)
        self.make(
            self.path("resourcebindings", prefix=WORK),
            {**body, **_typed("work.karmada.io/v1alpha2", "ResourceBinding")},
        )
        return str(body["spec"]["resource"]["name"])

    def _refer(self, body: Json, workload: Json) -> None:
        """Say whose binding it is, as Karmada's detector does."""
        metadata = workload["metadata"]
        named = {"apiVersion": workload["apiVersion"], "kind": workload["kind"], "name": metadata["name"]}
        body["spec"]["resource"].update(
            named, uid=metadata["uid"], resourceVersion=metadata["resourceVersion"], namespace=self.namespace
        )
        body["metadata"]["ownerReferences"] = [
            {**named, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
        ]

    def detected(
        self,
        builder: BindingBuilder,
        labels: Labels,
        *,
        annotations: Labels | None = None,
        policy: str = "",
    ) -> str:
        """A workload with labels and its binding without them."""
        resource = builder.build().spec.resource
        kind = (resource.api_version or "", resource.kind or "")
        return self.bind(builder, self.workload(resource.name or "", labels, kind, annotations), policy)

    # --- changing ---------------------------------------------------------------------------------

    def edit(self, name: str, change: Json, kind: str = "Deployment") -> None:
        self.patch(self._binding(name, kind), change, MERGE)

    def evict(self, name: str, *clusters: str) -> None:
        """What Karmada does when a cluster fails: the target goes, a task comes."""
        spec = self.binding(name)["spec"]
        rest = [target for target in spec["clusters"] if target["name"] not in clusters]
        tasks = [
            {"fromCluster": cluster, "reason": "TaintUntolerated", "producer": "TaintManager"}
            for cluster in clusters
        ]
        self.edit(name, {"spec": {"clusters": rest, "gracefulEvictionTasks": tasks}})

    def evicted(self, name: str) -> None:
        """The eviction is over."""
        self.edit(name, {"spec": {"gracefulEvictionTasks": None}})

    def delete(self, name: str, kind: Kind = DEPLOYMENT) -> None:
        """A workload and its binding go; on a bare server nobody collects the latter."""
        prefix, plural = _PATHS[kind]
        self.client.delete(self.path(plural, name, prefix))
        self.client.delete(self._binding(name, kind[1]))

    # --- seeing -----------------------------------------------------------------------------------

    def binding(self, name: str, kind: str = "Deployment") -> Json:
        return self.get(self._binding(name, kind))

    def places(self, name: str, kind: str = "Deployment") -> set[str]:
        return {target["name"] for target in self.binding(name, kind)["spec"].get("clusters") or ()}

    def targets(self, *names: str, kind: str = "Deployment") -> list[set[str]]:
        """The clusters each gets."""
        return [
            self.until(lambda name=name: self.places(name, kind), f"{name} is placed")  # type: ignore[misc]
            for name in names
        ]

    def everywhere(self) -> dict[str, set[str]]:
        """All bindings and their clusters."""
        items = self.get(self.path("resourcebindings", prefix=WORK))["items"]
        return {
            item["spec"]["resource"]["name"]: {
                target["name"] for target in item["spec"].get("clusters") or ()
            }
            for item in items
        }

    def condition(self, name: str, kind: str = "Deployment") -> Json:
        conditions = self.binding(name, kind).get("status", {}).get("conditions") or []
        return next((one for one in conditions if one["type"] == "Scheduled"), {})

    def refused(self, name: str, containing: str = "", kind: str = "Deployment") -> str:
        def message() -> str | None:
            condition = self.condition(name, kind)
            text = str(condition.get("message", ""))
            return text if condition.get("status") == "False" and containing in text else None

        return self.until(message, f"{name} fits nowhere: {containing}")

    def settled(self) -> None:
        """Wait until the scheduler has been through with everything so far: it places what came after."""
        self.bind(make_binding("marker"))
        self.targets("marker")
        self.client.delete(self._binding("marker", "Deployment"))

    def _binding(self, name: str, kind: str) -> str:
        return self.path("resourcebindings", binding_name(kind, name), WORK)

    def _state(self) -> str:
        return "\n".join(f"{name}: {sorted(places)}" for name, places in self.everywhere().items())

    # --- leaving ----------------------------------------------------------------------------------

    def clear(self) -> None:
        for prefix, plural in (
            *_PATHS.values(),
            (WORK, "resourcebindings"),
            (POLICY, "propagationpolicies"),
            (LEASES, "leases"),
        ):
            self._empty(self.path(plural, prefix=prefix))
        for name in self._clusters:
            self.client.delete(f"{CLUSTERS}/{name}")
        self.client.close()


def _typed(api_version: str, kind: str) -> Json:
    return {"apiVersion": api_version, "kind": kind}


def _spec(kind: Kind, name: str) -> Json:
    if kind == FLINK:
        return {"image": "flink:1.20"}
    pod = {"containers": [{"name": "main", "image": "main:1"}]}
    if kind == JOB:
        return {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
    labels = {"name": name}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
