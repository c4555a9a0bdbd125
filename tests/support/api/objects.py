"""Small valid objects to send to an API server."""

from __future__ import annotations

from typing import Any

from tests.support.api.client import Json


def pod(name: str = "web", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1.25"}], **spec},
    }


def exclusive_pod(name: str = "web", key: str = "kubernetes.io/hostname", **spec: Any) -> Json:
    """A pod that keeps a domain for itself."""
    term = {"topologyKey": key, "labelSelector": {}, "namespaceSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(name, affinity=rules, **spec)


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(name: str = "web", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod()["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }
