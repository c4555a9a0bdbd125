"""Lists: selectors, pages, versions, forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from berth.kube.text import yaml_reader
from berth.server.http import replies
from berth.server.http.replies import ListBody
from tests.support.api.client import Client
from tests.support.api.objects import config_map, pod
from tests.support.api.servers import running_server


def _names(client: Client, path: str, **query: object) -> list[str]:
    answer = client.get(path, **query)
    assert answer.status == 200, answer.body
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("", "abc"),
        ("tier=front", "a"),
        ("tier==front", "a"),
        ("tier!=front", "bc"),
        ("tier", "ab"),
        ("!tier", "c"),
        ("tier in (front,back)", "ab"),
        ("tier notin (front)", "bc"),
        ("tier=front,size>2", "a"),
        ("size<3", "b"),
        ("tier=", ""),
        ("a.b/c=d", ""),
    ],
)
def test_label_selectors(client: Client, labelled: str, selector: str, found: str) -> None:
    """A list holds exactly the objects its label selector matches."""
    assert _names(client, labelled, labelSelector=selector) == list(found)


@pytest.fixture(scope="module")
def labelled(client: Client) -> str:
    client.made("/api/v1/namespaces", {"metadata": {"name": "labelled"}})
    path = "/api/v1/namespaces/labelled/configmaps"
    for name, labels in (
        ("a", {"tier": "front", "size": "3"}),
        ("b", {"tier": "back", "size": "2"}),
        ("c", {}),
    ):
        body = config_map(name)
        body["metadata"]["labels"] = labels
        client.made(path, body)
    return path


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("spec.nodeName=n", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("spec.nodeName!=,status.phase=Pending", ["b"]),
        ("spec.schedulerName=default-scheduler", ["a", "b"]),
        ("status.phase=Running", []),
        ("metadata.name=a,metadata.name=b", []),
        ("metadata.name=a,metadata.name=a,metadata.name!=b", ["a"]),
        (",".join(f"metadata.name!=x{i}" for i in range(1000)), ["a", "b"]),
        (",".join(f"metadata.name!={name}" for name in ("a", "x", "b")), []),
    ],
)
def test_field_selectors(client: Client, pods: str, selector: str, found: list[str]) -> None:
    """A list holds exactly the pods its field selector matches."""
    assert _names(client, pods, fieldSelector=selector) == found


@pytest.fixture(scope="module")
def pods(client: Client) -> str:
    client.made("/api/v1/namespaces", {"metadata": {"name": "fields"}})
    path = "/api/v1/namespaces/fields/pods"
    client.made(path, pod("a"))
    client.made(path, pod("b", nodeName="n"))
    return path


def test_pages_show_one_moment(client: Client, space: str) -> None:
    """Later pages show what the first one did, whatever happened in between."""
    maps = f"{space}/configmaps"
    for name in "abcde":
        client.made(maps, config_map(name))
    first = client.get(maps, limit=2).json
    assert first["metadata"]["remainingItemCount"] == 3
    client.delete(f"{maps}/d")
    client.made(maps, config_map("cc"))
    client.patch(f"{maps}/e", {"data": {"k": "later"}})
    second = client.get(maps, limit=2, **{"continue": first["metadata"]["continue"]}).json
    third = client.get(maps, limit=2, **{"continue": second["metadata"]["continue"]}).json
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == list("abcde")
    assert "data" not in third["items"][-1] or not third["items"][-1]["data"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]


def test_page_expires(tmp_path: Path) -> None:
    """When the moment cannot be shown any more: 410, and a token to go on with what is there now."""
    maps = "/api/v1/namespaces/default/configmaps"
    with running_server(tmp_path, event_limit=5) as client:
        for name in "abcde":
            client.made(maps, config_map(name))
        token = client.get(maps, limit=2).json["metadata"]["continue"]
        for i in range(10):
            client.patch(f"{maps}/e", {"data": {"k": str(i)}})
        answer = client.get(maps, limit=2, **{"continue": token})
        assert (answer.status, answer.json["reason"]) == (410, "Expired")
        rest = client.get(maps, **{"continue": answer.json["metadata"]["continue"]}).json
        assert [item["metadata"]["name"] for item in rest["items"]] == list("cde")


def test_exact_version(client: Client, space: str) -> None:
    """A list of an exact version shows the past; NotOlderThan shows the present."""
    maps = f"{space}/configmaps"
    client.made(maps, config_map("a"))
    then = client.get(maps).json["metadata"]["resourceVersion"]
    client.made(maps, config_map("b"))
    assert _names(client, maps, resourceVersion=then, resourceVersionMatch="Exact") == ["a"]
    assert _names(client, maps, resourceVersion=then, resourceVersionMatch="NotOlderThan") == ["a", "b"]


def test_compressed(client: Client, space: str) -> None:
    """Large answers are compressed for clients that ask for it."""
    client.made(f"{space}/configmaps", config_map("a", k="x" * 200_000))
    plain = client.get(f"{space}/configmaps/a")
    small = client.send("GET", f"{space}/configmaps/a", headers={"Accept-Encoding": "gzip"})
    assert small.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body


def test_many(client: Client, space: str) -> None:
    """A long list is sent in pieces that make one document."""
    for i in range(150):
        client.made(f"{space}/configmaps", config_map(f"c{i:03}", k="x" * 5000))
    assert len(_names(client, f"{space}/configmaps")) == 150
    zipped = client.send("GET", f"{space}/configmaps", headers={"Accept-Encoding": "gzip"})
    assert len(gzip.decompress(zipped.body)) > 150 * 5000


def test_forms_of_discovery(client: Client) -> None:
    """The lists of groups and resources come as pretty JSON or YAML, as asked."""
    for path in ("/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"):
        assert client.get(path, pretty="true").body.startswith(b"{\n  ")
        yaml = client.send("GET", path, headers={"Accept": "application/yaml"})
        assert yaml.headers["content-type"] == "application/yaml"
        assert b"\nkind: API" in b"\n" + yaml.body


def test_forms(client: Client, space: str) -> None:
    """Lists come as tables, metadata only, pretty JSON or YAML, as asked."""
    client.made(f"{space}/pods", pod("a"))
    table = client.send(
        "GET", f"{space}/pods", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    ).json
    assert table["kind"] == "Table"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["resourceVersion"]
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = client.send("GET", f"{space}/pods", headers={"Accept": partial}).json
    assert (listed["kind"], "spec" in listed["items"][0]) == ("PartialObjectMetadataList", False)
    assert client.get(f"{space}/pods/a", pretty="true").body.startswith(b"{\n  ")
    yaml = client.send("GET", f"{space}/pods/a", headers={"Accept": "application/yaml"})
    assert yaml.body.startswith(b"apiVersion: v1\n") or b"\nkind: Pod\n" in yaml.body


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_list_for_eyes(client: Client, space: str, count: int) -> None:
    """It is laid out in the same way whether it is made at once or an item at a time."""
    for i in range(count):
        client.made(f"{space}/configmaps", config_map(f"a{i}", k='line\n"quoted" [{,' + "x" * 500))
    answer = client.get(f"{space}/configmaps", labelSelector="!none", pretty="1")
    assert answer.body == msgspec.json.format(answer.body, indent=2) + b"\n"
    assert len(answer.json["items"]) == count
    zipped = client.send("GET", f"{space}/configmaps?pretty=1", headers={"Accept-Encoding": "gzip"})
    body = gzip.decompress(zipped.body) if zipped.headers.get("Content-Encoding") else zipped.body
    assert len(json.loads(body)["items"]) >= count


def test_nobody_is_sent_more_than_a_piece_at_once() -> None:
    """However large an object is, only so much of it waits for who reads slowly, and nothing is lost."""
    parts = [b"a" * 10, b"b" * 3_000_000, b"c" * 200_000, *[b"d" * 1000] * 500, b"e"]
    made = list(replies.pieces(parts))
    assert b"".join(made) == b"".join(parts)
    assert max(map(len, made)) < 300_000
    assert len(made) < 40


@pytest.mark.parametrize("sizes", [[], [1], [3] * 10, [300_000, 1, 200_000, 5], [1000] * 700, [131_072] * 3])
def test_the_size_of_a_list_is_known_before_it_is_made(sizes: list[int]) -> None:
    """Its parts are one document of the size that was told, whatever is in it."""
    body = ListBody({"kind": "List"}, [b'"%s"' % (b"a" * size) for size in sizes])
    made = b"".join(body.parts())
    assert len(made) == body.size
    assert json.loads(made) == {"kind": "List", "items": ["a" * size for size in sizes]}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_list_in_yaml(client: Client, space: str, *, zipped: bool) -> None:
    """A list is the same in YAML as in JSON, however long, and with nothing in it too."""
    headers = {"Accept": "application/yaml", **({"Accept-Encoding": "gzip"} if zipped else {})}
    for count in (0, 300):
        for i in range(count):
            client.made(f"{space}/configmaps", config_map(f"m{i}", k="true", text="a: b\n" * 100))
        answer = client.send("GET", f"{space}/configmaps", headers=headers)
        body = gzip.decompress(answer.body) if answer.headers["Content-Encoding"] else answer.body
        assert answer.headers["Content-Type"] == "application/yaml"
        assert next(yaml_reader.read(body.decode())).value == client.get(f"{space}/configmaps").json


def test_events_in_two_groups(client: Client, space: str) -> None:
    """core/v1 and events.k8s.io/v1 Events are one object in two shapes."""
    name = space.rpartition("/")[2]
    regarding = {"kind": "Pod", "namespace": name, "name": "a"}
    event = {
        "metadata": {"name": "e"},
        "regarding": regarding,
        "reason": "Scheduled",
        "note": "text",
        "type": "Normal",
        "action": "Binding",
        "reportingController": "berth",
        "reportingInstance": "berth-0",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    new = f"/apis/events.k8s.io/v1/namespaces/{name}/events"
    made = client.made(new, event)
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "text")
    core = client.get(f"{space}/events/e").json
    assert (core["apiVersion"], core["message"], core["involvedObject"]) == ("v1", "text", regarding)
    assert _names(client, f"{space}/events", fieldSelector="involvedObject.name=a,reason=Scheduled") == ["e"]
    assert _names(client, new, fieldSelector="regarding.name=a") == ["e"]
    patched = client.patch(
        f"{new}/e", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    )
    assert (patched.status, patched.json["apiVersion"]) == (200, "events.k8s.io/v1")
    assert client.get(f"{space}/events/e").json["series"]["count"] == 2
