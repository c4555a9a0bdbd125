"""Objects with a few fields turned into nonsense: refused or accepted, never a 5xx."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, Client, Json
from tests.support.api.objects import deployment, pod

_JUNK: tuple[Any, ...] = (
    *(None, 0, -1, 1.5, 2**70, True),
    *("", "x", "Ü", "a" * 300, "../x", "\0"),
    *([], [None], [{}], {}, {"a": None}, {"a": {"b": [1]}}),
)
_SPACE = "/namespaces/default"
_SELECTED = {"matchLabels": {"app": "web"}}
_POD = pod("x", tolerations=[{"key": "a", "operator": "Exists"}], volumes=[{"name": "v", "secret": {}}])
_POD["spec"]["affinity"] = {
    "nodeAffinity": {
        "requiredDuringSchedulingRequiredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
        }
    }
}
_OBJECTS: dict[str, Json] = {
    f"/api/v1{_SPACE}/pods": _POD,
    "/api/v1/nodes": {
        "metadata": {"name": "x"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1"}},
    },
    f"/api/v1{_SPACE}/services": {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}},
    f"/api/v1{_SPACE}/secrets": {"metadata": {"name": "x"}, "stringData": {"a": "b"}},
    f"/apis/events.k8s.io/v1{_SPACE}/events": {
        "metadata": {"name": "x"},
        "regarding": {"kind": "Pod"},
        "deprecatedSource": {"component": "c"},
    },
    f"/apis/apps/v1{_SPACE}/deployments": deployment("x"),
    f"/apis/batch/v1{_SPACE}/jobs": {
        "metadata": {"name": "x"},
        "spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}},
    },
    f"/apis/policy/v1{_SPACE}/poddisruptionbudgets": {
        "metadata": {"name": "x"},
        "spec": {"minAvailable": "50%", "selector": _SELECTED},
    },
    f"/apis/coordination.k8s.io/v1{_SPACE}/leases": {
        "metadata": {"name": "x"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 4},
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "metadata": {"name": "ws.e.com"},
        "spec": {
            "group": "e.com",
            "scope": "Namespaced",
            "names": {"plural": "ws", "kind": "W"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}
                    },
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}],
                }
            ],
        },
    },
}


def _paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _paths(item, (*path, i))


def _spoilt(obj: Json, chance: random.Random) -> Json:
    spoilt = copy.deepcopy(obj)
    for _ in range(chance.choice((1, 1, 2, 3))):
        *outer, last = chance.choice([path for path in _paths(spoilt) if path])
        place: Any = spoilt
        for name in outer:
            place = place[name]
        place[last] = copy.deepcopy(chance.choice(_JUNK))
    return spoilt


@pytest.mark.parametrize("seed", range(4))
def test_no_server_error(client: Client, seed: int) -> None:
    """No spoilt object, patch or delete is answered with a 5xx."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    for _ in range(120):
        path, obj = chance.choice(list(_OBJECTS.items()))
        name = obj["metadata"]["name"]
        answers = [client.post(path, _spoilt(obj, chance)), client.post(path, obj)]
        kind = chance.choice((MERGE, STRATEGIC, APPLY, JSON_PATCH))
        body: object = _spoilt(obj, chance)
        if kind == JSON_PATCH:
            target = "/" + "/".join(map(str, chance.choice(list(_paths(obj)))))
            body = [
                {
                    "op": chance.choice(("add", "replace", "remove")),
                    "path": target,
                    "value": chance.choice(_JUNK),
                }
            ]
        answers.append(client.patch(f"{path}/{name}", body, kind, fieldManager="m", force="true"))
        live = client.get(f"{path}/{name}")
        if live.status == 200:
            answers.append(client.put(f"{path}/{name}", _spoilt(live.json, chance)))
        table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        answers.append(client.send("GET", path, headers=table))
        answers.append(client.delete(f"{path}/{name}", _spoilt({"gracePeriodSeconds": 0}, chance)))
        client.delete(f"{path}/{name}", {"gracePeriodSeconds": 0})
        wrong = [answer.body for answer in answers if answer.status >= 500]
        assert not wrong
