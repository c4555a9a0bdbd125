"""Requests that mean no good: whatever one does to the server, others are answered meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.support.api.client import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Answer, Client
from tests.support.api.hostility import besiege
from tests.support.api.objects import config_map, pod
from tests.support.api.servers import Backend, running_backend
from tests.support.api.soak import SECONDS, told

MAPS = "/api/v1/namespaces/default/configmaps"
THINGS = "/apis/example.com/v1/namespaces/default/things"
EVENTS = "/api/v1/namespaces/default/events"
PATIENCE = 1.0  # seconds of work of the server, before it answers others

Attack = Callable[[Client], Answer]


def yaml(body: str, path: str = MAPS) -> Attack:
    return lambda client: client.send("POST", path, body.encode(), content_type="application/yaml")


def posted(path: str, body: dict[str, Any]) -> Attack:
    return lambda client: client.post(path, json.dumps(body).encode())


def sent(path: str, body: bytes) -> Attack:
    return lambda client: client.post(path, body)


def patched(path: str, kind: str, body: object, **query: str) -> Attack:
    return lambda client: client.patch(path, json.dumps(body).encode(), kind, **query)


def aliases(levels: int) -> str:
    """Half a kilobyte that stands for more values than there is memory for."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


def merges(levels: int) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, levels)]
    return "\n".join(lines)


def large(client: Client) -> Answer:
    """The same large object, changed again and again."""
    client.post(MAPS, config_map("large", k="x" * 1_000_000))
    for i in range(300 if SECONDS else 30):
        answer = client.patch(f"{MAPS}/large", {"data": {"n": str(i)}})
    return answer


def watches(client: Client) -> Answer:
    """Watches without end, each a connection of its own."""
    with ExitStack() as opened:
        for _ in range(2_000 if SECONDS else 150):
            opened.enter_context(client.watching(PODS))
        return client.get("/healthz")


def many(count: int, **item: str) -> list[dict[str, Any]]:
    """Items that differ by their number."""
    return [{name: text.format(i) for name, text in item.items()} for i in range(count)]


def spread(count: int) -> list[dict[str, Any]]:
    return [
        {"maxSkew": 1, **one} for one in many(count, topologyKey="k{}", whenUnsatisfiable="ScheduleAnyway")
    ]


def thing(name: str, **spec: str) -> dict[str, Any]:
    """A custom object whose schema has patterns that mean no good, either."""
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def several(client: Client) -> Answer:
    """Objects with thousands of items by a schema with thousands of rules for each, several at once."""
    body = json.dumps({**thing("several"), "spec": {"rules": ["b"] * (7_000 if SECONDS else 12)}}).encode()

    def post(_: int) -> Answer:
        with closing(Client(client.prepared)) as own:
            return own.post(THINGS, body)

    with ThreadPoolExecutor(6 if SECONDS else 2) as attackers:
        *_, answer = attackers.map(post, range(6 if SECONDS else 2))
    return answer


def things() -> dict[str, Any]:
    rules = {"type": "string", "anyOf": [{"pattern": f"^a{i}$"} for i in range(2000)]}
    fields = {
        "rules": {"type": "array", "items": rules},
        "backtracking": {"type": "string", "pattern": "^(a+)+$"},
        "states": {"type": "string", "pattern": "^[ab]*a[ab]{800}[cd]$"},
        "many": {"type": "string", "allOf": [{"pattern": f"[ab]{{{i}}}[cd]"} for i in range(500, 700)]},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


ATTACKS: dict[str, tuple[Attack, int]] = {
    "nested lists": (yaml("[" * 25_000), 400),
    "three megabytes of nested lists": (yaml("[" * 3_000_000), 400),
    "aliases": (yaml(aliases(12)), 400),
    "aliases of a long text": (yaml(f'a: &a "{"x" * 500_000}"\nb: [{"*a, " * 15_000}*a]'), 400),
    "merge keys": (yaml(merges(30)), 400),
    "a number to the base of sixty": (yaml("a: " + "1:" * 500_000 + "1"), 422),
    "a number without end": (yaml("a: 0x" + "f" * 1_000_000), 422),
    "many values in YAML": (yaml("a: [" + "1," * 200_000 + "1]"), 422),
    "many documents": (yaml("---\n" * 100_000), 400),
    "not a number": (yaml("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nan}\ndata: {a: .nan}"), 400),
    "nested objects": (sent(MAPS, b'{"a":' * 500_000), 400),
    "many empty lists": (sent(MAPS, b"[" + b"[]," * 500_000 + b"[]]"), 400),
    "one field again and again": (sent(MAPS, b"{" + b'"a":1,' * 300_000 + b'"a":2}'), 422),
    "a long number": (sent(MAPS, b'{"a":' + b"9" * 2_000_000 + b"}"), 400),
    "unknown fields": (posted(MAPS, {**config_map("u"), **{f"f{i}": i for i in range(50_000)}}), 201),
    "many containers": (posted(PODS, pod("m", containers=many(40_000, name="c{}", image="i"))), 413),
    "many bad containers": (posted(PODS, pod("b", containers=many(20_000, name="C_", image="i"))), 422),
    "many spread constraints": (posted(PODS, pod("s", topologySpreadConstraints=spread(20_000))), 413),
    "a quota of many scopes": (
        posted(
            "/api/v1/namespaces/default/resourcequotas",
            {
                "metadata": {"name": "scopes"},
                "spec": {"hard": {"services": "1"}, "scopes": [f"S{i}" for i in range(30_000)]},
            },
        ),
        422,
    ),
    "a strategic patch": (
        patched(f"{PODS}/web", STRATEGIC, {"spec": {"containers": many(40_000, name="c{}", image="i")}}),
        422,
    ),
    "an apply": (
        patched(
            f"{MAPS}/applied",
            APPLY,
            config_map("applied", **{f"k{i}": "" for i in range(40_000)}),
            fieldManager="m",
        ),
        201,
    ),
    "copies of copies": (
        patched(
            f"{PODS}/web",
            JSON_PATCH,
            [{"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}] * 9_000,
        ),
        422,
    ),
    "a pattern that never ends": (posted(THINGS, thing("endless", backtracking="a" * 60 + "!")), 422),
    "a pattern of many states": (posted(THINGS, thing("states", states="ab" * 200_000)), 422),
    "many patterns": (posted(THINGS, thing("patterns", many="ab" * 5_000)), 422),
    "more rules than can be asked": (several, 504 if SECONDS else 422),
    "many labels": (
        patched(f"{PODS}/web", MERGE, {"metadata": {"labels": {f"l{i}": "v" for i in range(100_000)}}}),
        413,
    ),
    "a large object again and again": (large, 200),
    "many watches": (watches, 200),
    "many events in YAML": (
        lambda client: client.send("GET", EVENTS, headers={"Accept": "application/yaml"}),
        200,
    ),
}


@pytest.fixture(scope="module")
def besieged() -> Iterator[Backend]:
    with running_backend(real=False) as backend:
        client = backend.client()
        client.made(PODS, pod())
        client.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", things())
        note = "x" * 900
        for i in range(20_000 if SECONDS else 400):
            involved = {"kind": "Pod", "name": "web", "namespace": "default"}
            event = {
                "metadata": {"name": f"e{i}"},
                "involvedObject": involved,
                "message": note,
                "reason": "R",
            }
            client.made(EVENTS, event)
        client.close()
        yield backend


@pytest.mark.parametrize("name", ATTACKS)
def test_others_are_answered(besieged: Backend, name: str) -> None:
    """While a hostile request is under way health checks and reads are answered, and it gets its answer."""
    attack, status = ATTACKS[name]
    pid = besieged.pid
    siege = besiege(besieged, attack)

    assert siege.status == status, siege.outcome
    told(f"{name}: {siege.lasted:.2f} s, others {siege.longest:.2f} s ({siege.longest_busy:.2f} s of work)")
    assert min(siege.longest, siege.longest_busy) <= PATIENCE
    assert besieged.pid == pid
    assert siege.answers >= 1


def test_memory_stays_within_bounds(besieged: Backend) -> None:
    """After all of that the server is not many times as large as the objects it holds."""
    with open(f"/proc/{besieged.pid}/status") as status:  # noqa: PTH123
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    told(f"{resident // 1024} MB resident after all attacks")
    assert resident < 600 * 1024
