"""Watches: what they start with, what they carry, how they end."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from tests.support.api.client import Client, Json
from tests.support.api.objects import config_map, pod
from tests.support.api.servers import running_server

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


def _version(client: Client, path: str) -> str:
    return str(client.get(path).json["metadata"]["resourceVersion"])


def test_without_version_starts_with_state(client: Client, space: str) -> None:
    """No version, or 0: what there is comes first, as ADDED."""
    maps = f"{space}/configmaps"
    for name in ("a", "b"):
        client.made(maps, config_map(name))
    for query in ({}, {"resourceVersion": "0"}):
        with client.watching(maps, **query) as watch:
            assert watch.names(2) == [("ADDED", "a"), ("ADDED", "b")]
            client.delete(f"{maps}/b")
            assert watch.names(1) == [("DELETED", "b")]
        client.made(maps, config_map("b"))


def test_resumes_from_a_version(client: Client, space: str) -> None:
    """Every change after the version, in order, with the versions the writes got."""
    maps = f"{space}/configmaps"
    start = _version(client, maps)
    made = client.made(maps, config_map("a"))
    changed = client.patch(f"{maps}/a", {"data": {"k": "v"}}).json
    client.delete(f"{maps}/a")
    with client.watching(maps, resourceVersion=start) as watch:
        events = watch.take(3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions[:2] == [int(obj["metadata"]["resourceVersion"]) for obj in (made, changed)]
    assert versions == sorted(versions)


def test_resumes_from_a_version_to_come(client: Client, space: str) -> None:
    """Who has seen more than this server, as before a restore, is sent only what comes after that."""
    maps = f"{space}/configmaps"
    start = int(_version(client, maps)) + 2
    with client.watching(maps, resourceVersion=str(start)) as watch:
        made = [client.made(maps, config_map(name)) for name in ("a", "b", "c", "d", "e")]
        versions = {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in made}
        later = [("ADDED", name) for name, version in versions.items() if version > start]
        assert 0 < len(later) < len(made)
        assert watch.names(len(later)) == later


def test_initial_events_end_with_a_bookmark(client: Client, space: str) -> None:
    """sendInitialEvents: the state, then a bookmark that says it was all."""
    maps = f"{space}/configmaps"
    client.made(maps, config_map("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with client.watching(maps, **query) as watch:
        assert watch.names(1) == [("ADDED", "a")]
        bookmark = watch.next()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "ConfigMap"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        client.made(maps, config_map("b"))
        assert watch.names(1) == [("ADDED", "b")]


def test_no_initial_events(client: Client, space: str) -> None:
    """sendInitialEvents=false starts with now."""
    maps = f"{space}/configmaps"
    client.made(maps, config_map("a"))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    with client.watching(maps, **query) as watch:
        client.made(maps, config_map("b"))
        assert watch.names(1) == [("ADDED", "b")]


def test_selectors_turn_changes_into_comings_and_goings(client: Client, space: str) -> None:
    """An object that begins or ceases to match is ADDED or DELETED."""
    maps = f"{space}/configmaps"
    start = _version(client, maps)
    client.made(maps, config_map("a"))
    client.patch(f"{maps}/a", {"metadata": {"labels": {"tier": "front"}}})
    client.patch(f"{maps}/a", {"data": {"k": "v"}})
    gone = client.patch(f"{maps}/a", {"metadata": {"labels": {"tier": None}}}).json
    with client.watching(maps, labelSelector="tier=front", resourceVersion=start) as watch:
        events = watch.take(3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    last = events[2]["object"]["metadata"]
    assert last["labels"] == {"tier": "front"}
    assert last["resourceVersion"] == gone["metadata"]["resourceVersion"]


def test_field_selector(client: Client, space: str) -> None:
    """A scheduler watches pods without a node: a bound one is gone for it."""
    start = _version(client, f"{space}/pods")
    client.made(f"{space}/pods", pod("a"))
    client.made(f"{space}/pods/a/binding", {"target": {"kind": "Node", "name": "n"}})
    with client.watching(f"{space}/pods", fieldSelector="spec.nodeName=", resourceVersion=start) as watch:
        assert watch.names(2) == [("ADDED", "a"), ("DELETED", "a")]


def test_one_object(client: Client, space: str) -> None:
    """A watch of one name, in the path or by field selector, tells of no other object."""
    maps = f"{space}/configmaps"
    for name in ("a", "b"):
        client.made(maps, config_map(name))
    with client.watching(f"{maps}/b") as watch:
        assert watch.names(1) == [("ADDED", "b")]
    with client.watching(maps, fieldSelector="metadata.name=a") as watch:
        assert watch.names(1) == [("ADDED", "a")]


def test_tables_and_metadata(client: Client, space: str) -> None:
    """Rows of a watched table: the columns come with the first one only."""
    client.made(f"{space}/pods", pod("a"))
    with client.watching(f"{space}/pods", TABLE) as watch:
        first = watch.next()["object"]
        client.made(f"{space}/pods", pod("b"))
        second = watch.next()["object"]
    assert [column["name"] for column in first["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert not second["columnDefinitions"]
    assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["a", "b"]
    with client.watching(f"{space}/pods", PARTIAL) as watch:
        obj = watch.next()["object"]
    assert (obj["kind"], "spec" in obj) == ("PartialObjectMetadata", False)


def test_ends_after_its_time(client: Client, space: str) -> None:
    """A watch with timeoutSeconds ends after that time without an event."""
    began = time.monotonic()
    with client.watching(f"{space}/configmaps", timeoutSeconds=1) as watch:
        assert watch.rest() == []
    assert 0.9 < time.monotonic() - began < 5


def test_bookmarks(tmp_path: Path) -> None:
    """A watch that asks for them hears of versions it would not otherwise see."""
    with running_server(tmp_path, bookmark_interval=0.05) as client:
        path = "/api/v1/namespaces/default/configmaps"
        with client.watching(path, allowWatchBookmarks="true", timeoutSeconds=10) as watch:
            latest = client.made("/api/v1/namespaces/default/secrets", _secret())
            wanted = int(latest["metadata"]["resourceVersion"])
            while True:
                event = watch.next()
                assert event["type"] == "BOOKMARK"
                if int(event["object"]["metadata"]["resourceVersion"]) >= wanted:
                    break


def _secret() -> Json:
    return {"metadata": {"name": "s"}, "stringData": {"a": "b"}}


def test_too_old(tmp_path: Path) -> None:
    """A version that fell out of the log: 410 Expired inside the stream, as kube-apiserver answers."""
    maps = "/api/v1/namespaces/default/configmaps"
    with running_server(tmp_path, event_limit=5) as client:
        start = _version(client, maps)
        client.made(maps, config_map("a"))
        for i in range(10):
            client.patch(f"{maps}/a", {"data": {"k": str(i)}})
        _assert_expired(client, maps, start)
        latest = _version(client, maps)
    with running_server(tmp_path, event_limit=5) as client:
        _assert_expired(client, maps, start)
        with client.watching(maps, resourceVersion=latest) as watch:
            client.made(maps, config_map("b"))
            assert watch.names(1) == [("ADDED", "b")]


def _assert_expired(client: Client, path: str, version: str) -> None:
    with client.watching(path, resourceVersion=version) as watch:
        assert watch.response.status == 200
        (event,) = watch.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert "too old resource version" in event["object"]["message"]


def test_stopping_ends_watches(tmp_path: Path) -> None:
    """A server that stops does not wait for its watches, and they end as if their time were up."""
    with ExitStack() as after:
        with running_server(tmp_path) as client:
            watch = after.enter_context(client.watching("/api/v1/pods"))
            began = time.monotonic()
        assert watch.rest() == []
        assert time.monotonic() - began < 5
