"""Custom resources: served at once, checked, pruned, defaulted, and gone with their definition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.client import APPLY, Client, Json

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def _crd(plural: str = "widgets", **version: Any) -> Json:
    kind = plural.removesuffix("s").capitalize()
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "default": "blue"},
            "replicas": {"type": "integer"},
        },
    }
    schema = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": [plural[0]]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                    ],
                    **version,
                }
            ],
        },
    }


def _widget(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def test_life(client: Client) -> None:
    """A definition is established, its objects are judged by it, and they go with it."""
    made = client.made(CRDS, _crd())
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert made["status"]["storedVersions"] == ["v1"]
    widget = client.made(WIDGETS, _widget("a", nonsense=1))
    assert widget["spec"] == {"size": 1, "colour": "blue"}
    refused = client.post(WIDGETS, _widget("b", size=0))
    assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, "spec.size")
    assert client.post(WIDGETS, _widget("b", nonsense=1), fieldValidation="Strict").status == 400
    names = [r["name"] for r in client.get("/apis/example.com/v1").json["resources"]]
    assert names == ["widgets", "widgets/scale", "widgets/status"]
    table = client.send("GET", WIDGETS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert table.json["rows"][0]["cells"] == ["a", 1]
    status = client.patch(f"{WIDGETS}/a/status", {"status": {"replicas": 3}, "spec": {"size": 9}}).json
    assert (status["spec"]["size"], status["status"], status["metadata"]["generation"]) == (
        1,
        {"replicas": 3},
        1,
    )
    assert client.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}).json["spec"] == {"replicas": 4}
    assert client.get(f"{WIDGETS}/a/scale").json["status"]["replicas"] == 3
    assert client.put(f"{WIDGETS}/a", _widget("a")).status == 422  # no resourceVersion
    applied = client.patch(f"{WIDGETS}/c", _widget("c"), APPLY, fieldManager="me")
    assert applied.status == 201
    with client.watching(WIDGETS) as watch:
        assert watch.names(2) == [("ADDED", "a"), ("ADDED", "c")]
        assert client.delete(f"{CRDS}/widgets.example.com").status == 200
        assert watch.names(2) == [("DELETED", "a"), ("DELETED", "c")]
    assert client.get(f"{CRDS}/widgets.example.com").status == 404
    assert client.get(WIDGETS).status == 404


def test_waits_for_finalizers(client: Client) -> None:
    """A definition stays until the last of its objects is gone."""
    client.made(CRDS, _crd("gears"))
    gears = "/apis/example.com/v1/namespaces/default/gears"
    body = {**_widget("a"), "kind": "Gear"}
    body["metadata"]["finalizers"] = ["example.com/hold"]
    client.made(gears, body)
    client.delete(f"{CRDS}/gears.example.com")
    assert "deletionTimestamp" in client.get(f"{CRDS}/gears.example.com").json["metadata"]
    assert client.patch(f"{gears}/a", {"metadata": {"finalizers": None}}).status == 200
    assert client.get(f"{CRDS}/gears.example.com").status == 404


def test_versions(client: Client) -> None:
    """An object is served under every version of its definition."""
    crd = _crd("bolts")
    older = {**crd["spec"]["versions"][0], "name": "v1alpha1", "storage": False}
    crd["spec"]["versions"].append(older)
    client.made(CRDS, crd)
    path = "/apis/example.com/{}/namespaces/default/bolts"
    client.made(path.format("v1"), {**_widget("a"), "kind": "Bolt"})
    seen = client.get(f"{path.format('v1alpha1')}/a").json
    assert (seen["apiVersion"], seen["spec"]["size"]) == ("example.com/v1alpha1", 1)


def test_refused(client: Client) -> None:
    """A definition whose name does not match, or without a storage version, is a 422."""
    wrong = _crd("nuts")
    wrong["metadata"]["name"] = "other.example.com"
    answer = client.post(CRDS, wrong)
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "metadata.name")
    wrong = _crd("nuts", storage=False)
    assert client.post(CRDS, wrong).status == 422


@pytest.mark.parametrize(
    ("approval", "code"),
    [
        (None, 422),
        ("yes", 422),
        ("unapproved, experimental", 201),
        ("https://github.com/kubernetes/x/pull/1", 201),
    ],
)
def test_groups_of_the_community_need_approval(client: Client, approval: str | None, code: int) -> None:
    """A definition in *.k8s.io says who approved of it, or that nobody did."""
    crd = _crd("approvals")
    crd["metadata"]["name"], crd["spec"]["group"] = "approvals.things.k8s.io", "things.k8s.io"
    if approval:
        crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    answer = client.post(CRDS, crd)
    assert answer.status == code, answer.body
    if code == 201:
        client.delete(f"{CRDS}/{crd['metadata']['name']}")
    else:
        assert "protected groups must have approval annotation" in answer.message


def test_schemas_must_be_structural(client: Client) -> None:
    """A schema without types, or with a pattern that is none, is refused with its path."""
    crd = _crd("loose")
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields["free"] = {}
    fields["text"] = {"type": "string", "pattern": "("}
    message = client.post(CRDS, crd).message

    assert "openAPIV3Schema.properties[free].type: Required value" in message
    assert "must be a valid regular expression, but isn't: error parsing regexp: missing closing )" in message


@pytest.mark.parametrize(
    ("approval", "status", "reason", "message"),
    [
        ("https://example.com/1", "True", "ApprovedAnnotation", "approved in https://example.com/1"),
        ("unapproved, at all", "False", "UnapprovedAnnotation", 'not approved: "unapproved, at all"'),
    ],
)
def test_approval_is_a_condition(
    client: Client, approval: str, status: str, reason: str, message: str
) -> None:
    """The status says who approved of a definition in *.k8s.io, before it says anything else."""
    crd = _crd("approved")
    crd["metadata"]["name"], crd["spec"]["group"] = "approved.things.k8s.io", "things.k8s.io"
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    first = client.made(CRDS, crd)["status"]["conditions"][0]
    del first["lastTransitionTime"]
    wanted = {"type": "KubernetesAPIApprovalPolicyConformant", "status": status}
    assert first == {**wanted, "reason": reason, "message": message}
    client.delete(f"{CRDS}/approved.things.k8s.io")
