"""Creating, updating, patching: metadata, concurrency, subresources, dry runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.api.client import APPLY, JSON_PATCH, STRATEGIC, Client, Json
from tests.support.api.objects import config_map, deployment, pod

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def _apps(space: str) -> str:
    return f"/apis/apps/v1{space.removeprefix('/api/v1')}/deployments"


def test_created_metadata(client: Client, space: str) -> None:
    """The server decides uid, time, version and generation, whatever the client says."""
    body = pod("a")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 7}
    made = client.made(f"{space}/pods", body)["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", made["uid"])
    assert made["creationTimestamp"] > "2020"
    assert made["generation"] == 1
    assert made["resourceVersion"].isdigit()
    assert made["managedFields"][0]["operation"] == "Update"


def test_a_creator_owns_what_they_said(client: Client, space: str) -> None:
    """A creator owns what they said and the defaults, but not what admission adds."""
    (entry,) = client.made(f"{space}/pods", pod("a"))["metadata"]["managedFields"]
    owned = entry["fieldsV1"]["f:spec"]
    assert {"f:containers", "f:restartPolicy", "f:schedulerName"} <= set(owned)
    assert not {"f:volumes", "f:tolerations", "f:priority", "f:serviceAccountName"} & set(owned)
    assert "f:volumeMounts" not in str(owned)


def test_versions_grow(client: Client, space: str) -> None:
    """Every write has a resourceVersion greater than all before."""
    versions = [
        int(client.made(f"{space}/configmaps", config_map(name))["metadata"]["resourceVersion"])
        for name in "abc"
    ]
    assert versions == sorted(set(versions))


def test_exists(client: Client, space: str) -> None:
    """Creating an object that exists is a 409 AlreadyExists."""
    client.made(f"{space}/configmaps", config_map("a"))
    answer = client.post(f"{space}/configmaps", config_map("a"))
    assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'


def test_generate_name(client: Client, space: str) -> None:
    """generateName gets five random characters of the safe alphabet."""
    body = config_map("")
    body["metadata"] = {"generateName": "web-"}
    names = {client.made(f"{space}/configmaps", body)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_stale_update_conflicts(client: Client, space: str) -> None:
    """An update of an older version is a conflict with upstream's words, and changes nothing."""
    path = f"{space}/configmaps/a"
    old = client.made(f"{space}/configmaps", config_map("a"))
    assert client.put(path, {**old, "data": {"k": "1"}}).status == 200
    answer = client.put(path, {**old, "data": {"k": "2"}})
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.message == f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}'
    assert client.get(path).json["data"] == {"k": "1"}


def test_update_of_a_recreated_object_conflicts(client: Client, space: str) -> None:
    """Updating an object that was recreated since is a conflict by UID."""
    path = f"{space}/configmaps/a"
    old = client.made(f"{space}/configmaps", config_map("a"))
    client.delete(path)
    client.made(f"{space}/configmaps", config_map("a"))
    del old["metadata"]["resourceVersion"]
    answer = client.put(path, old)
    assert answer.status == 409
    assert "UID in precondition" in answer.message


def test_unchanged_update_is_no_write(client: Client, space: str) -> None:
    """An update that changes nothing keeps the resourceVersion."""
    old = client.made(f"{space}/configmaps", config_map("a", k="v"))
    again = client.put(f"{space}/configmaps/a", old).json
    assert again["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


def test_immutable_metadata(client: Client, space: str) -> None:
    """UID and creation time cannot be changed."""
    client.made(f"{space}/configmaps", config_map("a"))
    answer = client.patch(f"{space}/configmaps/a", {"metadata": {"uid": "other"}})
    assert answer.status == 409
    answer = client.patch(
        f"{space}/configmaps/a", {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z"}}
    )
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (
        422,
        "metadata.creationTimestamp",
    )


def test_generation_counts_spec_changes(client: Client, space: str) -> None:
    """The generation grows with changes of the spec only."""
    path = f"{_apps(space)}/web"
    client.made(_apps(space), deployment())
    assert client.patch(path, {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"] == 1
    assert client.patch(path, {"spec": {"replicas": 4}}).json["metadata"]["generation"] == 2
    status = {"status": {"replicas": 4, "observedGeneration": 2}}
    assert client.patch(f"{path}/status", status).json["metadata"]["generation"] == 2


def test_status_is_apart(client: Client, space: str) -> None:
    """The main endpoint cannot touch the status, nor the status endpoint the spec."""
    path = f"{_apps(space)}/web"
    client.made(_apps(space), {**deployment(), "status": {"replicas": 9}})
    assert "replicas" not in client.get(path).json["status"]
    client.patch(path, {"status": {"replicas": 9}})
    assert "replicas" not in client.get(path).json["status"]
    client.patch(f"{path}/status", {"spec": {"replicas": 9}, "status": {"replicas": 3}})
    now = client.get(path).json
    assert (now["spec"]["replicas"], now["status"]["replicas"]) == (1, 3)


def test_scale(client: Client, space: str) -> None:
    """The scale subresource reads and writes replicas, with conflicts and validation."""
    path = f"{_apps(space)}/web"
    client.made(_apps(space), deployment(replicas=2))
    scale = client.get(f"{path}/scale").json
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == (
        "Scale",
        {"replicas": 2},
        "app=web",
    )
    scale["spec"]["replicas"] = 5
    assert client.put(f"{path}/scale", scale).json["spec"] == {"replicas": 5}
    assert client.put(f"{path}/scale", scale).status == 409
    assert client.patch(f"{path}/scale", {"spec": {"replicas": 0}}).json["spec"] == {}
    assert client.get(path).json["spec"]["replicas"] == 0
    assert client.patch(f"{path}/scale", {"spec": {"replicas": -1}}).status == 422


def test_defaults(client: Client, space: str) -> None:
    """A Deployment gets the defaults of Kubernetes."""
    spec = client.made(_apps(space), deployment())["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"


def test_half_of_what_is_kept_of_claims_is_completed(client: Client, space: str) -> None:
    """A StatefulSet that says what becomes of claims when it is scaled keeps them when it is deleted."""
    policy = {"whenScaled": "Delete"}
    body = deployment(serviceName="s", persistentVolumeClaimRetentionPolicy=policy) | {"kind": "StatefulSet"}
    made = client.made(_apps(space).replace("deployments", "statefulsets"), body)
    completed = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == completed


def test_selector_rules(client: Client, space: str) -> None:
    """A Deployment's selector must match its template and cannot change."""
    wrong = deployment(selector={"matchLabels": {"app": "other"}})
    answer = client.post(_apps(space), wrong)
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (
        422,
        "spec.template.metadata.labels",
    )
    client.made(_apps(space), deployment())
    change = {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}}}
    answer = client.patch(f"{_apps(space)}/web", {"spec": change})
    assert (answer.status, "spec.selector" in answer.message) == (422, True)


@pytest.mark.parametrize(
    ("kind", "body", "want"),
    [
        ("application/merge-patch+json", {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (STRATEGIC, {"data": {"c": "3"}}, {"a": "1", "b": "2", "c": "3"}),
        (JSON_PATCH, [{"op": "replace", "path": "/data", "value": {"z": "9"}}], {"z": "9"}),
    ],
)
def test_patches(client: Client, space: str, kind: str, body: object, want: Json) -> None:
    """Merge, strategic and JSON patch each give the right object."""
    client.made(f"{space}/configmaps", config_map("a", a="1", b="2"))
    answer = client.patch(f"{space}/configmaps/a", body, kind)
    assert (answer.status, answer.json["data"]) == (200, want)


def test_apply(client: Client, space: str) -> None:
    """Server-side apply creates, owns, conflicts and is forced."""
    path = f"{space}/configmaps/a"
    config = config_map("a", k="1")
    made = client.patch(path, config, APPLY, fieldManager="one")
    assert made.status == 201
    assert [entry["manager"] for entry in made.json["metadata"]["managedFields"]] == ["one"]
    again = client.patch(path, config, APPLY, fieldManager="one")
    assert (again.status, again.json["metadata"]["resourceVersion"]) == (
        200,
        made.json["metadata"]["resourceVersion"],
    )
    other = client.patch(path, config_map("a", k="2"), APPLY, fieldManager="two")
    assert (other.status, other.json["reason"]) == (409, "Conflict")
    assert other.json["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    ]
    forced = client.patch(path, config_map("a", k="2"), APPLY, fieldManager="two", force="true")
    assert (forced.status, forced.json["data"]) == (200, {"k": "2"})
    assert client.patch(path, config, APPLY).status == 400


def test_dry_run(client: Client, space: str) -> None:
    """A dry run says what would happen and does nothing."""
    maps = f"{space}/configmaps"
    assert client.post(maps, config_map("a"), dryRun="All").status == 201
    assert client.get(f"{maps}/a").status == 404
    client.made(maps, config_map("a", k="1"))
    assert client.patch(f"{maps}/a", {"data": {"k": "2"}}, dryRun="All").json["data"] == {"k": "2"}
    assert client.delete(f"{maps}/a", dryRun="All").status == 200
    assert client.get(f"{maps}/a").json["data"] == {"k": "1"}


def test_binding(client: Client, space: str) -> None:
    """A pod is bound once; the condition says so."""
    client.made(f"{space}/pods", pod("a"))
    target = {"target": {"kind": "Node", "name": "n1"}}
    assert client.post(f"{space}/pods/a/binding", target).status == 201
    bound = client.get(f"{space}/pods/a").json
    assert bound["spec"]["nodeName"] == "n1"
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    again = client.post(f"{space}/pods/a/binding", {"target": {"kind": "Node", "name": "n2"}})
    assert (again.status, again.json["reason"]) == (409, "Conflict")
    assert 'is already assigned to node "n1"' in again.message
    client.made(f"{space}/pods", pod("b"))
    named = {"metadata": {"name": "b"}, **target}
    assert client.post(f"{space}/bindings", named).status == 201
    gated: Any = pod("c", schedulingGates=[{"name": "g"}])
    client.made(f"{space}/pods", gated)
    assert client.post(f"{space}/pods/c/binding", target).status == 409


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"containers": [{"name": "c", "image": "other"}], "automountServiceAccountToken": False}, 200),
        ({"activeDeadlineSeconds": 60}, 200),
        ({"tolerations": [{"key": "new", "operator": "Exists"}]}, 422),
        ({"nodeName": "n"}, 422),
        ({"nodeSelector": {"a": "b"}}, 422),
        ({"containers": []}, 422),
        ({"schedulingGates": [{"name": "late"}]}, 422),
    ],
)
def test_pod_updates(client: Client, space: str, change: Json, code: int) -> None:
    """Little of a pod's spec may change."""
    mounts = {name: change[name] for name in change if name == "automountServiceAccountToken"}
    made = client.made(f"{space}/pods", pod("a", **mounts))
    spec = {**made["spec"], **change}
    answer = client.put(f"{space}/pods/a", {**made, "spec": spec})
    assert answer.status == code, answer.body
    if "nodeSelector" in change:
        assert "pod updates may not change fields other than `spec.containers[*].image`" in answer.message


def test_tolerations_may_be_added(client: Client, space: str) -> None:
    """A toleration may be added to an existing pod."""
    made = client.made(f"{space}/pods", pod("a"))
    made["spec"]["tolerations"].append({"key": "new", "operator": "Exists"})
    assert client.put(f"{space}/pods/a", made).status == 200


def test_containers_that_are_not_there(client: Client, space: str) -> None:
    """A pod without a node has an empty log and no host; one on a node runs nothing, and says so."""
    client.made(f"{space}/pods", pod("a"))
    client.made(f"{space}/pods", pod("b", nodeName="n"))
    two = [{"name": "x", "image": "i"}, {"name": "y", "image": "i"}]
    client.made(f"{space}/pods", pod("c", containers=two, initContainers=[{"name": "z", "image": "i"}]))
    answer = client.get(f"{space}/pods/a/log")
    assert (answer.status, answer.body) == (200, b"")
    for name in ("attach", "exec", "portforward"):
        answer = client.post(f"{space}/pods/a/{name}", None, command="ls")
        assert (answer.status, answer.message) == (400, "pod a does not have a host assigned")
        answer = client.get(f"{space}/pods/b/{name}", command="ls")
        assert (answer.status, "hollow nodes run no containers" in answer.message) == (501, True)
    answer = client.get(f"{space}/pods/b/log")
    assert (answer.status, "no log" in answer.message) == (501, True)
    answer = client.get(f"{space}/pods/c/log")
    assert answer.message == (
        "a container name must be specified for pod c, choose one of: [x y] "
        "or one of the init containers: [z]"
    )
    answer = client.get(f"{space}/pods/c/log", container="w")
    assert (answer.status, answer.message) == (400, "container w is not valid for pod c")
    assert client.get(f"{space}/pods/none/log").status == 404


def test_reviews(client: Client) -> None:
    """kubectl auth can-i: whoever holds the token may do everything."""
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
    assert client.made(reviews, {"spec": spec})["status"]["allowed"] is True
    who = client.made("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert "system:masters" in who["status"]["userInfo"]["groups"]
    token = {"spec": {"token": client.prepared.token}}
    review = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert client.made(review, token)["status"]["authenticated"] is True
    assert "authenticated" not in client.made(review, {"spec": {"token": "x"}})["status"]


@pytest.mark.parametrize(
    ("path", "body", "taken"),
    [
        ("/apis/apps/v1{}/deployments", deployment("o"), {"annotations", "finalizers"}),
        ("/api/v1{}/pods", pod("o"), {"labels", "annotations", "finalizers"}),
        ("/api/v1{}/services", {"metadata": {"name": "o"}, "spec": {"ports": [{"port": 80}]}}, None),
        ("/api/v1{}/resourcequotas", {"metadata": {"name": "o"}, "spec": {}}, None),
        (
            "/apis/policy/v1{}/poddisruptionbudgets",
            {"metadata": {"name": "o"}, "spec": {"minAvailable": 1}},
            None,
        ),
        ("/apis/apps/v1{}/replicasets", {**deployment("o"), "kind": "ReplicaSet"}, None),
    ],
)
def test_a_status_may_be_written_with_metadata(
    client: Client, space: str, path: str, body: Json, taken: set[str] | None
) -> None:
    """A write to the status takes labels, annotations and finalizers where upstream takes them, no spec."""
    place = path.format(space.removeprefix("/api/v1"))
    client.made(place, body)
    given = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"]}
    answer = client.patch(f"{place}/o/status", {"metadata": given})
    assert answer.status == 200, answer.body
    metadata = answer.json["metadata"]
    found = {name for name, value in given.items() if _holds(metadata.get(name), value)}
    assert found == (set(given) if taken is None else taken)


def _holds(held: Any, given: Any) -> bool:
    return bool(held) and (held.items() >= given.items() if isinstance(given, dict) else held == given)
