"""Policies, resources and bindings in a world of event scripts."""

from __future__ import annotations

import itertools
from typing import Any

from berth.controllers.propagation import (
    ClusterEvictionController,
    PropagationController,
    UnmatchedPolicies,
)
from berth.kube.api_resources import (
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    POLICIES,
    RESOURCE_BINDINGS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from tests.support.scripts.script import Raw, Script, workload

FLINK = Resource("flink.apache.org", "v1beta1", "flinkdeployments", "FlinkDeployment")
KINDS = (DEPLOYMENTS, STATEFUL_SETS, JOBS, SERVICES, NAMESPACES, FLINK)
_ids = itertools.count(1)


class PropagationScript(Script):
    def __init__(self) -> None:
        super().__init__(lambda cache: PropagationController(cache, KINDS), ClusterEvictionController)
        self.machines.append(UnmatchedPolicies(self.cache, self.machines[0].kinds))

    def policy(self, name: str, *selectors: Raw, **spec: Any) -> Raw:
        """A policy in the namespace default; without selectors it is for all Deployments."""
        return self._policy(POLICIES, "propagationpolicy", name, selectors, spec)

    def cluster_policy(self, name: str, *selectors: Raw, **spec: Any) -> Raw:
        return self._policy(CLUSTER_POLICIES, "clusterpropagationpolicy", name, selectors, spec)

    def _policy(self, resource: Resource, kind: str, name: str, selectors: tuple[Raw, ...], spec: Raw) -> Raw:
        metadata: Raw = {"name": name, "labels": {f"{kind}.karmada.io/permanent-id": f"id-{next(_ids)}"}}
        if annotation := spec.pop("annotation", None):
            metadata["annotations"] = {"berth.dev/workload-affinity": annotation}
        given = {"resourceSelectors": list(selectors) or [select(DEPLOYMENTS)], **spec}
        made = self.create(resource, {"metadata": metadata, "spec": given})
        self.settle()
        return made

    def deploy(self, name: str = "web", replicas: int = 2, namespace: str = "default", **labels: str) -> None:
        body = workload(name, replicas)
        body["metadata"].update(labels=labels, namespace=namespace)
        self.create(DEPLOYMENTS, body)
        self.settle()

    def binding(self, name: str = "web-deployment", namespace: str = "default") -> Raw:
        return self.get(RESOURCE_BINDINGS, name, namespace)

    def bindings(self) -> list[str]:
        return self.names(RESOURCE_BINDINGS) + self.names(CLUSTER_BINDINGS)

    def holder(self, name: str = "web-deployment") -> str | None:
        """The policy a binding says it is of."""
        notes = self.binding(name)["metadata"].get("annotations") or {}
        return notes.get("propagationpolicy.karmada.io/name") or notes.get(
            "clusterpropagationpolicy.karmada.io/name"
        )

    def told(self, reason: str) -> list[str]:
        return [event["message"] for event in self.all(EVENTS) if event["reason"] == reason]


def select(resource: Resource, **fields: Any) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **fields}
