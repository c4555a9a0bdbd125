"""The quick way to a new object's managed fields agrees with the general one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from berth.kube.schema import SchemaRegistry
from berth.server import patch
from berth.server.patch import managers
from tests.support.api.client import Json
from tests.support.api.objects import config_map, deployment, pod

_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
_RICH = pod(
    "rich",
    affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}},
    nodeSelector={},
    tolerations=[{"key": "a", "operator": "Exists"}],
    volumes=[{"name": "v", "configMap": {"name": "c"}}],
    imagePullSecrets=[{"name": "s"}],
    securityContext={},
)
_RICH["spec"]["containers"][0] |= {
    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}],
    "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
    "args": ["x"],
}
_RICH["metadata"] |= {
    "finalizers": ["a/b"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}],
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "uid": "u",
}


def _with(obj: Json, **fields: Any) -> Json:
    return {**copy.deepcopy(obj), **fields}


@pytest.mark.parametrize(
    "obj",
    [
        pod(),
        _RICH,
        config_map("empty"),
        config_map("a", k="v"),
        _with(config_map("null", k="v"), binaryData=None),
        deployment(),
        _with(deployment(), status={"replicas": 1}),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "a"},
            "spec": {},
            "status": {"conditions": []},
        },
    ],
)
def test_agrees(obj: Json) -> None:
    """The quick way to the creator's managed fields gives what the general one gives."""
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = SchemaRegistry().for_kind(group, version, obj["kind"])
    assert schema is not None
    reset = (("f:status",),)
    slow = patch.track_update(None, copy.deepcopy(obj), schema, manager="m", now="t", reset=reset)
    quick = managers.creator_entry(obj, schema, "m", "t", without_status=True)
    assert slow["metadata"].get("managedFields", []) == ([quick] if quick is not None else [])
