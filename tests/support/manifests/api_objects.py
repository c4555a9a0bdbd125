"""Objects for the server's tests: a pod and a deployment with a bit of everything, and generated ones."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Machines that run tests are busy; how long an example takes says nothing.
PROPERTY = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
    "spec": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingRequiredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            },
        },
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                "ports": [{"containerPort": 80, "name": "http"}],
                "resources": {"requests": {"cpu": "100m", "memory": 1024}},
                "securityContext": {"capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "nodeSelector": {"zone": "a"},
        "priority": 10,
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    },
}


def pod() -> dict[str, Any]:
    return copy.deepcopy(_POD)


def deployment(**spec: Any) -> dict[str, Any]:
    """A small deployment; keywords replace fields of its spec."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]},
            },
            **spec,
        },
    }


Dicts = st.SearchStrategy[list[dict[str, Any]]]

_words = st.sampled_from(["a", "b", "c", "d"])
_labels = st.dictionaries(_words, _words, max_size=3)
_ports: Dicts = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.integers(1, 3)},
        optional={"name": _words, "protocol": st.sampled_from(["TCP", "UDP"])},
    ),
    max_size=3,
    unique_by=lambda port: (port["containerPort"], port.get("protocol", "TCP")),
)
_env: Dicts = st.lists(
    st.fixed_dictionaries({"name": _words}, optional={"value": _words}),
    max_size=2,
    unique_by=lambda variable: variable["name"],
)
_containers: Dicts = st.lists(
    st.fixed_dictionaries(
        {"name": _words},
        optional={
            "image": _words,
            "args": st.lists(_words, max_size=2),
            "ports": _ports,
            "env": _env,
        },
    ),
    max_size=3,
    unique_by=lambda container: container["name"],
)
_pod_specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": _containers,
        "nodeSelector": _labels,
        "priority": st.integers(0, 3),
        "tolerations": st.lists(st.fixed_dictionaries({"key": _words}), max_size=2),
    },
)


def _configuration(
    labels: dict[str, str] | None, finalizers: list[str] | None, spec: dict[str, Any]
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "web"}
    if labels is not None:
        metadata["labels"] = labels
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


# Deployments as people apply them: some fields, maps, atomic lists, sets and lists with keys.
configurations: st.SearchStrategy[dict[str, Any]] = st.builds(
    _configuration,
    st.none() | _labels,
    st.none() | st.lists(_words, max_size=2, unique=True),
    st.fixed_dictionaries(
        {},
        optional={
            "replicas": st.integers(0, 3),
            "paused": st.booleans(),
            "template": st.fixed_dictionaries({"spec": _pod_specs}),
        },
    ),
)

_json_scalars = st.none() | st.booleans() | st.integers(-3, 3) | _words
json_objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    _words,
    st.recursive(
        _json_scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
