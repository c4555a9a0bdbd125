"""PodGroups and Workloads of scheduling.k8s.io/v1beta1, and what a server of another version left of them.

The texts are those of kube-apiserver v1.37.0-rc.1.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from berth.kube.versions import NEWEST, OLDEST, KubernetesVersion
from berth.server.registry.kinds.workloads.pod_groups import ALPHA, BETA, converted
from tests.support.api.client import Client, Json
from tests.support.api.servers import running_server

GANG = {"gang": {"minCount": 3}}
REF = {"workloadName": "w", "templateName": "t"}
_numbers = itertools.count(1)


def path(space: str, plural: str = "podgroups", api: str = BETA) -> str:
    return f"/apis/{api}/namespaces/{space.rpartition('/')[2]}/{plural}"


def group(name: str = "trainers", api: str = BETA, **spec: Any) -> Json:
    given = {"schedulingPolicy": GANG, **spec}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name}, "spec": given}


def workload(*templates: Json, **spec: Any) -> Json:
    given = {"podGroupTemplates": list(templates), **spec}
    return {"apiVersion": BETA, "kind": "Workload", "metadata": {"name": "train"}, "spec": given}


def template(name: str = "workers", **fields: Any) -> Json:
    return {"name": name, "schedulingPolicy": GANG, **fields}


def condition(kind: str, **fields: Any) -> Json:
    return {
        "type": kind,
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        **fields,
    }


@pytest.fixture
def priority_class(client: Client) -> str:
    name = f"high-{next(_numbers)}"
    client.made("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    return name


def test_a_group_is_completed(client: Client, space: str) -> None:
    """It is disrupted pod by pod and has a priority; what is behind gates that are off is dropped."""
    dropped: Json = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "preemptionPolicy": "Never"}
    made = client.made(path(space), group(**dropped, parentCompositePodGroupName="x", workloadRef=REF))

    kept = {"schedulingPolicy": GANG, "workloadRef": REF, "priority": 0}
    assert made["spec"] == {**kept, "disruptionMode": {"single": {}}}
    assert (made["status"], made["apiVersion"]) == ({}, BETA)


def test_the_priority_of_a_group(client: Client, space: str, priority_class: str) -> None:
    """It is that of its class, which has to be there; another number is refused."""
    made = client.made(path(space), group(priorityClassName=priority_class))
    assert made["spec"]["priority"] == 1000

    missing = client.post(path(space), group("b", priorityClassName="nope"))
    assert (missing.status, missing.message) == (
        403,
        'podgroups.scheduling.k8s.io "b" is forbidden: no PriorityClass with name nope was found',
    )
    other = client.post(path(space), group("b", priority=7))
    assert other.status == 403
    assert "priority set in the pod group (7) must match the priority computed (0) based" in other.message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"disruptionMode": {}},
            'spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`',
        ),
        (
            {"disruptionMode": {"all": {}, "single": {}}},
            (
                'spec.disruptionMode: Invalid value: "{single, all}": '
                "must specify exactly one of: `single`, `all`"
            ),
        ),
        ({"workloadRef": {"workloadName": "w"}}, "spec.workloadRef.templateName: Required value"),
        (
            {"workloadRef": {}},
            "[spec.workloadRef.workloadName: Required value, spec.workloadRef.templateName: Required value]",
        ),
        (
            {"schedulingPolicy": {}},
            'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
        ),
        (
            {"priorityClassName": "system-cluster-critical"},
            "spec.priority: Invalid value: 2000000000: must be less than or equal to 1000000000",
        ),
    ],
)
def test_groups_that_make_no_sense_are_refused(client: Client, space: str, spec: Json, message: str) -> None:
    """An invalid PodGroup is a 422 that names the field."""
    answer = client.post(path(space), group(**spec))
    assert (answer.status, answer.message) == (
        422,
        f'PodGroup.scheduling.k8s.io "trainers" is invalid: {message}',
    )


def test_how_many_pods_a_group_wants_may_change(client: Client, space: str) -> None:
    """The number may, neither the policy nor anything else."""
    client.made(path(space), group())
    own = f"{path(space)}/trainers"
    assert client.patch(own, {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}).status == 200
    for change, message in (
        (
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "spec.schedulingPolicy.gang.minCount: Required value",
        ),
        (
            {"schedulingPolicy": {"gang": None, "basic": {}}},
            (
                "[spec.schedulingPolicy.basic: Invalid value: null: field is immutable, "
                "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set]"
            ),
        ),
        (
            {"disruptionMode": {"all": {}, "single": None}},
            "spec.disruptionMode: Invalid value: null: field is immutable",
        ),
        ({"workloadRef": REF}, "spec.workloadRef: Invalid value: null: field is immutable"),
    ):
        answer = client.patch(own, {"spec": change})
        assert (answer.status, answer.message.partition("is invalid: ")[2]) == (422, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            workload(),
            'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`',
        ),
        (
            workload(template("a", priorityClassName="x"), template("b")),
            "spec: Invalid value: null: detected multiple priority configurations",
        ),
        (
            workload(template("a", priority=2_000_000_000)),
            (
                "spec.podGroupTemplates[0].priority: Invalid value: 2000000000: "
                "must be less than or equal to 1000000000"
            ),
        ),
        (
            workload(*(template(f"t{i}") for i in range(9))),
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
    ],
)
def test_workloads_that_make_no_sense_are_refused(
    client: Client, space: str, body: Json, message: str
) -> None:
    """An invalid Workload is a 422 that names the field."""
    answer = client.post(path(space, "workloads"), body)
    assert (answer.status, answer.message.partition("is invalid: ")[2]) == (422, message)


def test_templates_may_change_but_not_come_or_go(client: Client, space: str) -> None:
    """A template's number may change; a list with another template is refused."""
    client.made(path(space, "workloads"), workload(template("a")))
    own = f"{path(space, 'workloads')}/train"
    more = template("a", schedulingPolicy={"gang": {"minCount": 9}})
    assert client.patch(own, {"spec": {"podGroupTemplates": [more]}}).status == 200
    other = client.patch(own, {"spec": {"podGroupTemplates": [template("x")]}})
    assert other.message.partition("is invalid: ")[2] == (
        "[spec.podGroupTemplates[0]: Forbidden: item may not be added, "
        "spec.podGroupTemplates: Forbidden: item may not be removed]"
    )


def test_what_kubectl_shows(client: Client, space: str) -> None:
    """The table shows the workload, and the condition by its new name."""
    client.made(path(space), group(workloadRef=REF))
    conditions = [condition(NEWEST.pod_group_condition)]
    client.patch(f"{path(space)}/trainers/status", {"status": {"conditions": conditions}})
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = client.send("GET", path(space), headers=accept).json
    assert table["rows"][0]["cells"][:-1] == ["trainers", "Gang", "w", "Scheduled"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST], ids=lambda version: str(version.name))
def test_the_version_it_says(tmp_path: Path, version: KubernetesVersion) -> None:
    """A server is of the version it is told, and has the groups of that and of no other."""
    with running_server(tmp_path, version=version) as client:
        said = client.get("/version").json
        assert (said["gitVersion"], f"{said['major']}.{said['minor']}") == (
            f"{version.release}+berth",
            version.name,
        )
        apis = [entry["version"] for entry in client.get("/apis/scheduling.k8s.io").json["versions"]]
        assert apis == ["v1", version.pod_group_api]
        info = client.get("/openapi/v2").json["info"]
        assert info["version"] == f"{version.release}+berth"


def test_data_of_another_version(tmp_path: Path) -> None:
    """Groups that one version stored are those of the other when it opens them, and back again."""
    space = "/api/v1/namespaces/default"
    old_ref = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    with running_server(tmp_path, version=OLDEST) as client:
        made = client.made(path(space, api=ALPHA), group(api=ALPHA, podGroupTemplateRef=old_ref))
        status = {"status": {"conditions": [condition(OLDEST.pod_group_condition)]}}
        client.patch(f"{path(space, api=ALPHA)}/trainers/status", status)
    with running_server(tmp_path, version=NEWEST) as client:
        found = client.get(f"{path(space)}/trainers").json
        assert (found["apiVersion"], found["metadata"]["uid"]) == (BETA, made["metadata"]["uid"])
        assert found["spec"] == {
            "schedulingPolicy": GANG,
            "disruptionMode": {"single": {}},
            "workloadRef": REF,
        }
        assert [each["type"] for each in found["status"]["conditions"]] == [NEWEST.pod_group_condition]
        change = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        assert client.patch(f"{path(space)}/trainers", change).status == 200
        client.made(path(space), group("late", disruptionMode={"all": {}}))
    with running_server(tmp_path, version=OLDEST) as client:
        items = client.get(path(space, api=ALPHA)).json["items"]
        late, first = sorted(items, key=lambda item: str(item["metadata"]["name"]))
        assert (first["apiVersion"], first["spec"]["podGroupTemplateRef"]) == (ALPHA, old_ref)
        assert first["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
        assert (late["spec"]["disruptionMode"], "priority" in late["spec"]) == ("PodGroup", False)
        assert client.delete(f"{path(space, api=ALPHA)}/late").status == 200


def test_owners_of_fields_of_another_version_are_forgotten() -> None:
    """As upstream does where a version is not served any more; converting to its own changes nothing."""
    fields = [{"manager": "a", "apiVersion": ALPHA}, {"manager": "b", "apiVersion": BETA}]
    obj = group(api=ALPHA) | {"metadata": {"name": "g", "managedFields": fields}}
    assert converted(obj, BETA)["metadata"]["managedFields"] == fields[1:]
    assert converted(obj, ALPHA) is obj
