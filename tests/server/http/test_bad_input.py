"""Requests that must be refused, with the code and reason kube-apiserver gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.client import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Client
from tests.support.api.objects import config_map, pod

_LABELS = "/api/v1/pods?labelSelector="
_FIELDS = "/api/v1/pods?fieldSelector="


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"),
    [
        ("POST", PODS, b"{", 400, "BadRequest"),
        ("POST", PODS, b"", 400, "BadRequest"),
        ("POST", PODS, b"[]", 400, "BadRequest"),
        ("POST", PODS, b'"x"', 400, "BadRequest"),
        ("POST", PODS, b"null", 400, "BadRequest"),
        ("POST", PODS, b"\xff\xfe", 400, "BadRequest"),
        ("POST", PODS, b"[" * 100_000, 400, "BadRequest"),
        ("POST", PODS, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}, 400, "BadRequest"),
        (
            "POST",
            PODS,
            {"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "a"}},
            400,
            "BadRequest",
        ),
        ("POST", PODS, {"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "a"}}, 400, "BadRequest"),
        ("POST", PODS, {"kind": 3}, 400, "BadRequest"),
        ("POST", PODS, {"metadata": []}, 400, "BadRequest"),
        ("POST", PODS, {"metadata": {"name": 3}}, 400, "BadRequest"),
        ("POST", PODS, {"metadata": {"name": "a"}, "spec": []}, 400, "BadRequest"),
        ("POST", PODS, {"metadata": {"name": "a"}, "spec": {"containers": "x"}}, 400, "BadRequest"),
        ("POST", PODS, {"metadata": {"name": "a"}, "spec": {"containers": [None]}}, 422, "Invalid"),
        ("POST", PODS, {"metadata": {"name": "a", "namespace": "b"}}, 400, "BadRequest"),
        ("POST", PODS, {"metadata": {"name": "a"}}, 422, "Invalid"),
        ("POST", PODS, {}, 422, "Invalid"),
        ("POST", PODS, pod("Bad_Name"), 422, "Invalid"),
        ("POST", PODS, pod("../../etc"), 422, "Invalid"),
        ("POST", "/api/v1/namespaces/missing/pods", pod(), 404, "NotFound"),
        ("POST", "/api/v1/pods", pod(), 405, "MethodNotAllowed"),
        ("POST", f"{PODS}/web", pod(), 405, "MethodNotAllowed"),
        ("PUT", PODS, pod(), 405, "MethodNotAllowed"),
        ("PUT", f"{PODS}/web", pod(), 404, "NotFound"),
        ("PUT", f"{PODS}/other", pod(), 400, "BadRequest"),
        ("GET", f"{PODS}/missing", None, 404, "NotFound"),
        ("GET", f"{PODS}/..%2F..%2Fetc%2Fpasswd", None, 404, "NotFound"),
        ("GET", f"{PODS}/%2e%2e", None, 404, "NotFound"),
        ("GET", "/api/v1/namespaces/../pods", None, 404, "NotFound"),
        ("GET", "/api/v1/nonsense", None, 404, "NotFound"),
        ("GET", "/apis/nonsense/v1/things", None, 404, "NotFound"),
        ("GET", "/nonsense", None, 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", None, 404, "NotFound"),
        ("GET", "/api/v1/pods/web", None, 404, "NotFound"),
        ("GET", f"{PODS}/web/nonsense", None, 404, "NotFound"),
        ("DELETE", f"{PODS}/missing", None, 404, "NotFound"),
        ("GET", f"{_LABELS}a%20b", None, 400, "BadRequest"),
        ("GET", f"{_LABELS}a%20in", None, 400, "BadRequest"),
        ("GET", f"{_LABELS}a%20in%20(x", None, 400, "BadRequest"),
        ("GET", f"{_LABELS}-a-%3Db", None, 400, "BadRequest"),
        ("GET", f"{_LABELS}a%3Db,", None, 400, "BadRequest"),
        ("GET", f"{_LABELS}a%3D!", None, 400, "BadRequest"),
        ("GET", f"{_FIELDS}spec.nonsense%3Dx", None, 400, "BadRequest"),
        ("GET", f"{_FIELDS}status.phase", None, 400, "BadRequest"),
        ("GET", "/api/v1/pods?limit=x", None, 400, "BadRequest"),
        ("GET", "/api/v1/pods?limit=-1", None, 422, "Invalid"),
        ("GET", "/api/v1/pods?continue=x", None, 400, "BadRequest"),
        ("GET", "/api/v1/pods?resourceVersion=x", None, 400, "BadRequest"),
        ("GET", "/api/v1/pods?resourceVersion=999999999", None, 504, "Timeout"),
        ("GET", "/api/v1/pods?resourceVersionMatch=Exact", None, 422, "Invalid"),
        ("GET", "/api/v1/pods?watch=true&sendInitialEvents=true", None, 422, "Invalid"),
        ("GET", "/api/v1/pods?watch=true&timeoutSeconds=x", None, 400, "BadRequest"),
        ("POST", f"{PODS}?dryRun=Some", pod(), 400, "BadRequest"),
        ("POST", f"{PODS}?fieldValidation=Some", pod(), 400, "BadRequest"),
        ("POST", f"{PODS}/web/eviction", {}, 404, "NotFound"),
        ("POST", f"{PODS}/web/binding", {"target": {"name": "n"}}, 404, "NotFound"),
        ("DELETE", f"{PODS}/missing", {"propagationPolicy": "Nonsense"}, 422, "Invalid"),
        ("DELETE", f"{PODS}/missing", {"gracePeriodSeconds": "x"}, 400, "BadRequest"),
        ("DELETE", f"{PODS}/missing", b"{", 400, "BadRequest"),
    ],
)
def test_refused(client: Client, method: str, path: str, body: object, code: int, reason: str) -> None:
    """The status code and reason are kube-apiserver's, and the body is a Status."""
    answer = client.send(method, path, body)
    assert (answer.status, answer.json.get("reason")) == (code, reason), answer.body
    assert answer.json["kind"] == "Status"
    assert answer.json["code"] == code


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        (MERGE, b"[", 400),
        (MERGE, [], 400),
        (JSON_PATCH, {}, 400),
        (JSON_PATCH, [{"op": "remove", "path": "/nonsense/deep"}], 422),
        (STRATEGIC, b"1", 400),
        (MERGE, {"metadata": {"name": "other"}}, 400),
        (MERGE, {"kind": "Service"}, 400),
        (MERGE, {"metadata": {"labels": {"a": "-bad-"}}}, 422),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409),
        (APPLY, {"apiVersion": "v1", "kind": "ConfigMap"}, 400),
        ("application/json", {}, 415),
        ("text/nonsense", {}, 415),
    ],
)
def test_refused_patch(client: Client, space: str, kind: str, body: object, code: int) -> None:
    """A patch that is malformed, misaddressed or stale gets the status kube-apiserver gives."""
    client.made(f"{space}/configmaps", config_map("a", k="v"))
    assert client.patch(f"{space}/configmaps/a", body, kind).status == code


def test_body_limit(client: Client) -> None:
    """More than 3 MiB is refused before it is read."""
    large = config_map("large", data="x" * (3 * 1024 * 1024))
    answer = client.post("/api/v1/namespaces/default/configmaps", large)
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
    client.close()


def test_media_types(client: Client) -> None:
    """Media types the server does not take or give are refused; a list with one it gives is not."""
    protobuf = "application/vnd.kubernetes.protobuf"
    assert client.send("POST", PODS, pod(), content_type="application/cbor").status == 415
    assert client.send("POST", PODS, pod(), content_type=protobuf).status == 400  # it is JSON
    assert client.send("GET", PODS, headers={"Accept": protobuf}).status == 406
    assert client.send("GET", PODS, headers={"Accept": f"{protobuf},application/json"}).status == 200


@pytest.mark.parametrize("header", ["", "Bearer nonsense", "Bearer ", "Basic YTpi"])
def test_needs_token(client: Client, header: str) -> None:
    """Without the token nothing but health and version is answered."""
    answer = client.send("GET", PODS, headers={"Authorization": header})
    assert (answer.status, answer.json["reason"], answer.message) == (401, "Unauthorized", "Unauthorized")
    assert client.send("GET", "/readyz", headers={"Authorization": header}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6443", "127.0.0.1.evil.example"])
def test_foreign_host(client: Client, host: str) -> None:
    """A name that means another server is refused: a web page must not reach this one through DNS."""
    assert client.send("GET", PODS, headers={"Host": host}).status == 403
    assert client.send("GET", PODS, headers={"Host": "localhost:1"}).status == 200


@pytest.mark.parametrize(
    ("mode", "code", "warnings"),
    [("Strict", 400, 0), ("Warn", 201, 2), ("Ignore", 201, 0), ("", 201, 2)],
)
def test_unknown_fields(client: Client, space: str, mode: str, code: int, warnings: int) -> None:
    """Strict refuses what no schema knows, Warn and Ignore drop it."""
    body: dict[str, Any] = pod("a", nonsense=1)
    body["spec"]["containers"][0]["imagee"] = "x"
    answer = client.post(f"{space}/pods", body, fieldValidation=mode)
    assert answer.status == code
    assert len(answer.headers.get_all("Warning") or ()) == warnings
    if code == 400:
        assert 'unknown field "spec.containers[0].imagee"' in answer.message
        assert 'unknown field "spec.nonsense"' in answer.message
    else:
        assert "nonsense" not in answer.json["spec"]


def test_invalid_has_causes(client: Client, space: str) -> None:
    """A 422 names every invalid field among its causes."""
    body = pod("a")
    body["spec"]["containers"] = [{"name": "Bad_Name", "image": "x"}]
    body["metadata"]["labels"] = {"-bad": "x"}
    details = client.post(f"{space}/pods", body).json["details"]
    assert {cause["field"] for cause in details["causes"]} == {
        "spec.containers[0].name",
        "metadata.labels",
    }
    assert details["kind"] == "Pod"


def test_nesting_without_end_is_a_bad_request(client: Client) -> None:
    """A body that is nested deeper than any object is refused, not a failure of the server."""
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    answer = client.post(PODS, b'{"metadata":{"name":"deep"},"spec":' + deep + b"}")

    assert answer.status in (400, 422)


def test_a_warning_may_name_any_field(client: Client) -> None:
    """Control characters in a field's name do not break the header that warns of it."""
    body = {**config_map("odd"), "strange\r\nfield\x00": 1}
    answer = client.post("/api/v1/namespaces/default/configmaps", body, fieldValidation="Warn")

    assert answer.status == 201


_TWICE = (
    b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"twice","name":"twice"},'
    b'"data":{"a":"1","a":"2"}}'
)
_TWICE_IN_YAML = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: twice}
data:
  a: "1"
  a: "2"
"""


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore", ""])
def test_fields_given_twice(client: Client, space: str, mode: str) -> None:
    """Strict refuses a field that is there twice, Warn tells of it, and the last one counts."""
    answer = client.post(f"{space}/configmaps", _TWICE, fieldValidation=mode)
    if mode == "Strict":
        assert answer.status == 400
        assert (
            'strict decoding error: duplicate field "metadata.name", duplicate field "data.a"'
            in answer.message
        )
        return
    assert answer.json["data"] == {"a": "2"}
    assert len(answer.headers.get_all("Warning") or ()) == (0 if mode == "Ignore" else 2)


@pytest.mark.parametrize("mode", ["Strict", "Warn"])
def test_fields_given_twice_in_yaml(client: Client, space: str, mode: str) -> None:
    """A key given twice in YAML is told or refused, as `fieldValidation` asks, with its line."""
    answer = client.send(
        "POST", f"{space}/configmaps", _TWICE_IN_YAML, content_type="application/yaml", fieldValidation=mode
    )
    if mode == "Strict":
        assert answer.status == 400
        assert 'line 6: key "a" already set in map' in answer.message
        return
    assert answer.json["data"] == {"a": "2"}
    assert "already set in map" in answer.headers["Warning"]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ('{1: "x", true: "y"}', {"1": "x", "true": "y"}),
        ('{a: "22:30"}', {"a": "22:30"}),
    ],
)
def test_yaml_as_kubernetes_reads_it(
    client: Client, space: str, written: str, stored: dict[str, str]
) -> None:
    """Keys are strings of their own."""
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: of-yaml}}\ndata: {written}\n".encode()
    answer = client.send("POST", f"{space}/configmaps", body, content_type="application/yaml")

    assert answer.json["data"] == stored


def test_times_of_day_are_text(client: Client, space: str) -> None:
    """A plain 22:30 is no number, so a field of text takes it."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-yaml}\ndata: {at: 22:30}\n"
    answer = client.send("POST", f"{space}/configmaps", body, content_type="application/yaml")

    assert (answer.status, answer.json["data"]) == (201, {"at": "22:30"})


def test_objects_have_a_size(client: Client, space: str) -> None:
    """No patch makes an object larger than etcd would take."""
    client.made(f"{space}/configmaps", config_map("grows"))
    for i in range(4):
        labels = {f"k{i}-{n}": "v" * 60 for n in range(6000)}
        answer = client.patch(f"{space}/configmaps/grows", {"metadata": {"labels": labels}})
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
