"""Clusters, policies and workloads as files have them, for the `berth fleet` commands."""

from __future__ import annotations

from typing import Any


def cluster(name: str, **changes: Any) -> dict[str, Any]:
    """A cluster with room, which serves Deployments and ConfigMaps."""
    apis = [
        {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
        {"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]},
    ]
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"region": "eu"},
        "status": {
            "apiEnablements": apis,
            "resourceSummary": {"allocatable": {"cpu": "10", "memory": "20Gi", "pods": "50"}},
        },
        **changes,
    }


def policy(name: str = "p", *, kind: str = "Deployment", **changes: Any) -> dict[str, Any]:
    """A policy for everything of a kind in `shop`: one cluster each."""
    placement = {"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1}]}
    api = "apps/v1" if kind == "Deployment" else "v1"
    spec = {"resourceSelectors": [{"apiVersion": api, "kind": kind}], "placement": placement}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {**spec, **changes},
    }


def apart(key: str = "ha") -> dict[str, Any]:
    """A placement that keeps workloads with the same value of a label on different clusters."""
    return {
        "spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1}],
        "workloadAffinity": {"antiAffinity": {"groupByLabelKey": key}},
    }


def deployment(name: str, replicas: int | None = None, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": spec,
    }


def binding(name: str, clusters: dict[str, int], **spec: Any) -> dict[str, Any]:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name}
    targets = [{"name": target, "replicas": replicas} for target, replicas in clusters.items()]
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": f"{name}-deployment", "namespace": "shop"},
        "spec": {"resource": resource, "placement": {}, "replicas": 1, "clusters": targets, **spec},
    }


CLUSTERS = [cluster("m1"), cluster("m2")]
