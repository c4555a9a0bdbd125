"""PodGroups and Workloads of scheduling.k8s.io/v1alpha2: what is accepted, kept and shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from berth.kube.versions import OLDEST
from tests.support.api.client import Client, Json
from tests.support.api.objects import pod
from tests.support.api.servers import running_server

API = "scheduling.k8s.io/v1alpha2"
GANG = {"gang": {"minCount": 3}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server of the version that has them there."""
    with running_server(tmp_path_factory.mktemp("data"), version=OLDEST) as started:
        yield started


def groups(space: str) -> str:
    return f"/apis/{API}/namespaces/{space.rpartition('/')[2]}/podgroups"


def workloads(space: str) -> str:
    return f"/apis/{API}/namespaces/{space.rpartition('/')[2]}/workloads"


def group(name: str = "trainers", **spec: Any) -> Json:
    given = {"schedulingPolicy": GANG, **spec}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name}, "spec": given}


def workload(*templates: Json, **spec: Any) -> Json:
    given = {"podGroupTemplates": list(templates), **spec}
    return {"apiVersion": API, "kind": "Workload", "metadata": {"name": "train"}, "spec": given}


def template(name: str = "workers", **policy: Any) -> Json:
    return {"name": name, "schedulingPolicy": policy or GANG}


def condition(**fields: Any) -> Json:
    return {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        **fields,
    }


def test_a_group_is_stored_as_it_was_given(client: Client, space: str) -> None:
    """A new group has no status, no generation, and the fields of features that are off are dropped."""
    body = group(priority=7, schedulingConstraints={"topology": [{"key": "rack"}]})
    body["status"] = {"conditions": [condition()]}
    made = client.made(groups(space), body)

    assert made["spec"] == {"schedulingPolicy": GANG, "disruptionMode": "Pod"}
    assert made["status"] == {}
    assert "generation" not in made["metadata"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"schedulingPolicy": {}},
            'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
        ),
        (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            '"{basic, gang}": must specify exactly one of: `basic`, `gang`',
        ),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ),
        (
            {"podGroupTemplateRef": {"workload": {"workloadName": "w"}}},
            "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",
        ),
        (
            {"podGroupTemplateRef": {}},
            'spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`',
        ),
    ],
)
def test_groups_that_make_no_sense_are_refused(client: Client, space: str, spec: Json, message: str) -> None:
    """An invalid PodGroup is a 422 that names the field."""
    answer = client.post(groups(space), group(**spec))
    assert (answer.status, message in answer.message) == (422, True), answer.message


def test_a_group_does_not_change(client: Client, space: str) -> None:
    """Policy and template are immutable; labels are not."""
    client.made(groups(space), group())
    path = f"{groups(space)}/trainers"
    changed = client.patch(path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
    assert changed.status == 422
    assert "spec.schedulingPolicy: Invalid value: null: field is immutable" in changed.message
    assert client.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_status_is_written_apart(client: Client, space: str) -> None:
    """The status subresource takes conditions and leaves the spec alone."""
    client.made(groups(space), group())
    path = f"{groups(space)}/trainers/status"
    written = client.patch(path, {"status": {"conditions": [condition()]}, "spec": {"schedulingPolicy": {}}})
    assert written.status == 200, written.body
    assert written.json["spec"]["schedulingPolicy"] == GANG
    assert written.json["status"]["conditions"][0]["reason"] == "Scheduled"

    bad = client.patch(path, {"status": {"conditions": [condition(status="Yes", reason="")]}})
    assert bad.status == 422
    assert 'status.conditions[0].status: Unsupported value: "Yes"' in bad.message
    assert "status.conditions[0].reason: Required value" in bad.message


@pytest.mark.parametrize(
    ("policy", "conditions", "row"),
    [
        (GANG, [], ["trainers", "Gang", "<none>", "Pending"]),
        ({"basic": {}}, [condition()], ["trainers", "Basic", "<none>", "Scheduled"]),
        (GANG, [condition(status="False")], ["trainers", "Gang", "<none>", "Unschedulable"]),
        (
            GANG,
            [condition(), condition(type="DisruptionTarget", reason="PreemptionByScheduler")],
            ["trainers", "Gang", "<none>", "PreemptionByScheduler"],
        ),
    ],
)
def test_what_kubectl_shows(
    client: Client, space: str, policy: Json, conditions: list[Json], row: list[str]
) -> None:
    """The table of PodGroups shows policy, workload and status."""
    client.made(groups(space), group(schedulingPolicy=policy))
    client.patch(f"{groups(space)}/trainers/status", {"status": {"conditions": conditions}})
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = client.send("GET", groups(space), headers=accept).json
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Policy", "Workload", "Status", "Age"]
    assert table["rows"][0]["cells"][:-1] == row


def test_both_kinds_are_discovered(client: Client) -> None:
    """v1 stays the version to prefer; the newer one says what it serves."""
    served = client.get(f"/apis/{API}").json["resources"]
    assert {entry["name"]: entry["kind"] for entry in served} == {
        "podgroups": "PodGroup",
        "podgroups/status": "PodGroup",
        "workloads": "Workload",
    }
    about = client.get("/apis/scheduling.k8s.io").json
    assert about["preferredVersion"]["version"] == "v1"
    assert client.get("/apis/scheduling.k8s.io/v1beta1").status == 404


def test_a_workload_names_its_templates(client: Client, space: str) -> None:
    """A Workload's pod group templates cannot be changed."""
    made = client.made(workloads(space), workload(template(), template("driver", basic={})))
    assert "status" not in made
    changed = client.patch(f"{workloads(space)}/train", {"spec": {"podGroupTemplates": [template("x")]}})
    assert "spec.podGroupTemplates: Invalid value: null: field is immutable" in changed.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (workload(), "spec.podGroupTemplates: Required value"),
        (workload(template(), template()), "spec.podGroupTemplates[1]: Duplicate value"),
        (workload(template("Not_A_Label")), 'spec.podGroupTemplates[0].name: Invalid value: "Not_A_Label"'),
        (
            workload(*(template(f"t{i}") for i in range(9))),
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            workload(template(), controllerRef={"apiGroup": "batch", "kind": "Job", "name": "a/b"}),
            "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'",
        ),
    ],
)
def test_workloads_that_make_no_sense_are_refused(
    client: Client, space: str, body: Json, message: str
) -> None:
    """An invalid Workload is a 422 that names the field."""
    answer = client.post(workloads(space), body)
    assert (answer.status, message in answer.message) == (422, True), answer.message


def test_a_pod_joins_a_group_for_good(client: Client, space: str) -> None:
    """A pod's group is a valid name and never changes."""
    nameless = client.post(f"{space}/pods", pod("a", schedulingGroup={}))
    assert "spec.schedulingGroup.podGroupName" in nameless.message
    assert nameless.status == 422
    bad = client.post(f"{space}/pods", pod("a", schedulingGroup={"podGroupName": "No_Name"}))
    assert 'spec.schedulingGroup.podGroupName: Invalid value: "No_Name"' in bad.message

    made = client.made(f"{space}/pods", pod("a", schedulingGroup={"podGroupName": "trainers"}))
    made["spec"]["schedulingGroup"] = {"podGroupName": "others"}
    assert client.put(f"{space}/pods/a", made).status == 422
