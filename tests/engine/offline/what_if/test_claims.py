"""Pods of StatefulSets have their claims, and go where these let them."""

from pathlib import Path
from typing import Any

import pytest

from berth.engine.offline.explaining.replicas import further_replicas
from berth.engine.offline.explanation import explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import read
from berth.engine.offline.what_if.changes import WhatIfError
from berth.engine.offline.what_if.questions import fit, lose_each
from berth.kube.manifests.manifest import load
from tests.support.builders import HOSTNAME
from tests.support.manifests.what_if import (
    Thing,
    after,
    changed,
    node,
    places,
    pod,
    pod_spec,
    workload,
    world,
    written,
)

NODES = [node("a1", "a"), node("b1", "b"), node("c1", "c")]
LOCAL: Thing = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
MADE: Thing = {**LOCAL, "metadata": {"name": "made"}, "provisioner": "disks.example.com"}


def database(replicas: int, storage_class: str = "local") -> Thing:
    """A StatefulSet whose pods have a claim each."""
    made = workload("StatefulSet", "db", replicas)
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claimed(storage_class)}]
    return made


def claimed(storage_class: str, **more: Any) -> Thing:
    size = {"requests": {"storage": "1Gi"}}
    return {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": size,
        **more,
    }


def volume(name: str, on: str, claim: str | None = None) -> Thing:
    """A local volume, of a claim or for whoever comes."""
    selected = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [on]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": selected}},
            **({"claimRef": {"namespace": "default", "name": claim, "uid": claim}} if claim else {}),
        },
        "status": {"phase": "Bound" if claim else "Available"},
    }


def bound(claim: str, to: str) -> Thing:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim,
            "namespace": "default",
            "uid": claim,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": claimed("local", volumeName=to),
        "status": {"phase": "Bound"},
    }


def running(ordinal: int, on: str) -> Thing:
    made = pod(f"db-{ordinal}", on, owner="StatefulSet/db", app="db")
    claim = {"claimName": f"data-db-{ordinal}"}
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
    return made


def test_a_claim_that_is_there_holds_the_pod_where_its_volume_is(tmp_path: Path) -> None:
    """A StatefulSet from files goes to the nodes of the volumes that its claims have."""
    claims = [bound("data-db-0", "pv0"), bound("data-db-1", "pv1")]
    volumes = [volume("pv0", "c1", "data-db-0"), volume("pv1", "a1", "data-db-1")]
    made = world(tmp_path, *NODES, LOCAL, *volumes, *claims, database(2))
    assert places(made) == {"db-0": "c1", "db-1": "a1"}


def test_claims_that_are_missing_are_made(tmp_path: Path) -> None:
    """Each pod gets a free volume of the class, and the one that finds none waits."""
    made = world(tmp_path, *NODES, LOCAL, volume("pv0", "b1"), database(2))
    assert places(made) == {"db-0": "b1"}
    assert "didn't find available persistent volumes to bind" in made.unplaced["default/db-1"].message


def test_claims_of_a_class_that_makes_volumes_are_no_obstacle(tmp_path: Path) -> None:
    """Where volumes are made on demand, the pods go anywhere."""
    assert len(places(world(tmp_path, *NODES, MADE, database(3, "made")))) == 3


def test_more_replicas_than_volumes(tmp_path: Path) -> None:
    """Scaling up asks for a volume for each new pod."""
    found = after(
        tmp_path,
        "scale sts/db=4",
        *NODES,
        LOCAL,
        volume("pv0", "a1", "data-db-0"),
        bound("data-db-0", "pv0"),
        volume("pv1", "b1"),
        database(1),
        running(0, "a1"),
    )
    assert [(move.pod, move.target) for move in found.moves] == [("db-1", "b1")]
    assert [each.pod for each in found.unplaced] == ["db-2", "db-3"]


def test_a_pod_is_rolled_out_to_where_its_volume_is(tmp_path: Path) -> None:
    """A rollout whose only node is cordoned meanwhile is stuck, however much room others have."""
    made = world(
        tmp_path,
        *NODES,
        LOCAL,
        volume("pv0", "a1", "data-db-0"),
        bound("data-db-0", "pv0"),
        database(1),
        running(0, "a1"),
    )
    assert changed(made, tmp_path, "rollout sts/db").ok
    assert places(made) == {"db-0": "a1"}
    found = changed(made, tmp_path, "cordon a1; rollout sts/db")
    assert [each.pod for each in found.unplaced] == ["db-0"]
    assert "cordoned" in found.sentence or "unschedulable" in found.sentence


def test_a_claim_that_is_deleted_is_made_anew_with_its_pod(tmp_path: Path) -> None:
    """The way to move a pod off a broken disk: delete the claim, then the pod."""
    made = world(
        tmp_path,
        *NODES,
        LOCAL,
        volume("pv0", "a1", "data-db-0"),
        bound("data-db-0", "pv0"),
        volume("pv1", "c1"),
        database(1),
        running(0, "a1"),
    )
    assert changed(made, tmp_path, "cordon a1; delete pvc/data-db-0; delete pod/db-0").ok
    assert places(made) == {"db-0": "c1"}


def test_further_replicas_need_a_volume_each(tmp_path: Path) -> None:
    """As many fit as there are volumes, and nothing of it is left behind."""
    made = world(tmp_path, *NODES, LOCAL, *(volume(f"pv{i}", "b1") for i in range(3)), database(1))
    assert fit(made, "sts/db").fitting == 2
    assert fit(made, "sts/db").fitting == 2
    assert made.cluster.volumes.claim("default", "data-db-1") is None
    assert fit(world(tmp_path, *NODES, MADE, database(1, "made")), "sts/db").fitting == 11


def test_explain_counts_further_replicas_with_their_claims(tmp_path: Path) -> None:
    """The next pod of a StatefulSet is judged with the claims it would get, and so are those after it."""
    disks = [volume("pv", "b1", "data-db-0"), *(volume(f"pv{i}", "b1") for i in range(2))]
    things = [*NODES, LOCAL, *disks, bound("data-db-0", "pv"), database(1), running(0, "b1")]
    simulation = simulate(read(load([tmp_path / written(tmp_path, "cluster.yaml", *things)])))
    entry = find(simulation, "sts/db", None)
    assert (entry.name, explain(simulation, entry).node) == ("db-1", "b1")
    found = further_replicas(simulation, entry)
    assert found is not None
    assert (found.count, found.pods, found.waiting) == (2, 1, 0)
    assert "didn't find available persistent volumes" in found.message
    assert simulation.snapshot.cluster.volumes.claim("default", "data-db-2") is None


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("job/work", "2 further replicas of Job/work fit"),
        ("cj/nightly", "2 further replicas of CronJob/nightly fit"),
        ("pod/lone", "2 further pods like Pod/lone fit"),
        ("rs/some", "2 further replicas of ReplicaSet/some fit"),
    ],
)
def test_how_many_more_of_any_kind_fit(tmp_path: Path, asked: str, sentence: str) -> None:
    """Jobs and single pods can be asked about like what has replicas, with volumes of their own."""
    scratch = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": claimed("local")}}}]
    template = {"spec": {**pod_spec("2", volumes=scratch), "restartPolicy": "Never"}}
    job: Thing = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": {}}
    job["spec"] = {"template": template}
    cron: Thing = {**job, "kind": "CronJob", "metadata": {"name": "nightly"}}
    cron["spec"] = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    some = workload("ReplicaSet", "some", 1, cpu="2", volumes=scratch)
    lone = pod("lone", cpu="2", volumes=scratch)
    disks = [volume(f"pv{i}", each) for i, each in enumerate(("a1", "b1", "c1"))]
    chosen = {"job": job, "cj": cron, "pod": lone, "rs": some}[asked.partition("/")[0]]
    made = world(tmp_path, *NODES, LOCAL, *disks, chosen)
    found = fit(made, asked)
    assert found.sentence.startswith(sentence)
    assert fit(made, asked) == found


def test_daemons_have_no_replicas(tmp_path: Path) -> None:
    """How many more pods of a DaemonSet fit is a question about nodes."""
    with pytest.raises(WhatIfError, match="DaemonSet/log has one pod on every node"):
        fit(world(tmp_path, *NODES, workload("DaemonSet", "log")), "ds/log")


def scratching(on: str) -> list[Thing]:
    """A pod as a server has it, with an ephemeral volume that is in zone a."""
    template = {"volumeClaimTemplate": {"spec": claimed("made")}}
    made = pod("w", on, owner="ReplicaSet/w")
    made["metadata"]["uid"] = "pod-w"
    made["spec"]["volumes"] = [{"name": "scratch", "ephemeral": template}]
    claim = bound("w-scratch", "pv0")
    claim["spec"]["storageClassName"] = "made"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "w", "uid": "pod-w", "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    disk = volume("pv0", on, "w-scratch")
    disk["spec"]["storageClassName"] = "made"
    return [MADE, disk, claim, made]


@pytest.mark.parametrize(
    "changes",
    ["drain a1", "lose zone=a", "cordon a1; evict w", "cordon a1; replace-all", "cordon a1; delete pod/w"],
)
def test_a_pod_that_is_made_anew_gets_new_ephemeral_volumes(tmp_path: Path, changes: str) -> None:
    """The claim of an ephemeral volume goes with its pod: it neither holds nor bars the next one."""
    found = after(tmp_path, changes, *NODES[:2], *scratching("a1"))
    assert [(move.pod, move.target) for move in found.moves] == [("w", "b1")]


def test_new_ephemeral_volumes_wherever_the_pod_goes(tmp_path: Path) -> None:
    """The N+1 table knows it, and so do changes that move the pod twice; nothing is left behind."""
    made = world(tmp_path, *NODES[:2], *scratching("a1"))
    assert lose_each(made, "zone").ok
    assert lose_each(made, "zone").ok
    assert places(made) == {"w": "a1"}
    found = changed(made, tmp_path, "drain a1; label a1:x=y; taint b1:x=y:NoExecute")
    assert [each.pod for each in found.unplaced] == ["w"]
    assert "unschedulable" in found.sentence


def test_a_new_configuration_knows_the_claims_that_were_made(tmp_path: Path) -> None:
    """The cluster is taken in again with the claims of pods that were made meanwhile."""
    settings = tmp_path / "config.yaml"
    settings.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    made = world(tmp_path, *NODES, LOCAL, volume("pv0", "b1"), volume("pv1", "c1"), database(1))
    found = changed(made, tmp_path, f"config {settings}; scale sts/db=3")
    assert (len(places(made)), [each.pod for each in found.unplaced]) == (2, ["db-2"])
