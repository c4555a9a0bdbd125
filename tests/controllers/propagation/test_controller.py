"""Policies turn resources into bindings."""

from __future__ import annotations

from typing import Any

from berth.kube.api_resources import (
    CLUSTER_BINDINGS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_BINDINGS,
)
from berth.machines.contract import Create
from tests.support.builders import REQUIRED
from tests.support.scripts.propagation import FLINK, PropagationScript, select
from tests.support.scripts.script import verbs


def test_a_binding_says_what_is_to_be_put_where() -> None:
    """The resource, its replicas and their needs, the placement, the scheduler, and whose it is."""
    world = PropagationScript()
    world.policy("p", placement={"clusterAffinity": {"clusterNames": ["m1"]}}, schedulerName="berth")
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod, "nodeSelector": {"disk": "ssd"}}}
    made = world.create(
        DEPLOYMENTS, {"metadata": {"name": "Web"}, "spec": {"replicas": 3, "template": template}}
    )
    world.settle()
    binding = world.binding()
    assert binding["spec"] == {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "default",
            "name": "Web",
            "uid": made["metadata"]["uid"],
            "resourceVersion": made["metadata"]["resourceVersion"],
        },
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "replicas": 3,
        "replicaRequirements": {
            "nodeClaim": {"nodeSelector": {"disk": "ssd"}},
            "resourceRequest": {"cpu": "500m"},
        },
        "schedulerName": "berth",
    }
    policy = world.get(POLICIES, "p")["metadata"]
    label = "propagationpolicy.karmada.io/permanent-id"
    assert binding["metadata"]["labels"] == {label: policy["labels"][label]}
    assert binding["metadata"]["annotations"] == {
        "propagationpolicy.karmada.io/namespace": "default",
        "propagationpolicy.karmada.io/name": "p",
    }
    (owner,) = binding["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", made["metadata"]["uid"], True)
    assert world.told("ApplyPolicySucceed") == ["Apply policy(default/p) succeed"]


def test_the_policy_may_come_last() -> None:
    """Resources that were there are found; kinds that no policy names are not looked at."""
    world = PropagationScript()
    world.deploy()
    assert world.bindings() == []
    world.policy("p")
    assert world.bindings() == ["web-deployment"]


def test_a_job_has_as_many_replicas_as_run_at_once() -> None:
    """Its parallelism, but not more than it has completions."""
    world = PropagationScript()
    world.policy("p", select(JOBS))
    for name, spec in (("wide", {"parallelism": 5, "completions": 2}), ("long", {"parallelism": 3})):
        world.create(JOBS, {"metadata": {"name": name}, "spec": spec})
    world.settle()
    assert world.binding("wide-job")["spec"]["replicas"] == 2
    assert world.binding("long-job")["spec"]["replicas"] == 3


def test_a_custom_resource_has_no_replicas() -> None:
    """Nothing is known about it but that it is there."""
    world = PropagationScript()
    world.policy("p", select(FLINK))
    world.create(FLINK, {"metadata": {"name": "a"}, "spec": {"replicas": 3}})
    world.settle()
    assert "replicas" not in world.binding("a-flinkdeployment")["spec"]


def test_what_lives_in_no_namespace_gets_a_cluster_binding() -> None:
    """A cluster-scoped resource gets a ClusterResourceBinding, and only a cluster's policy selects it."""
    world = PropagationScript()
    world.cluster_policy("p", select(NAMESPACES, name="shop"))
    world.create(NAMESPACES, {"metadata": {"name": "shop"}})
    world.create(NAMESPACES, {"metadata": {"name": "bank"}})
    world.settle()
    assert world.names(CLUSTER_BINDINGS) == ["shop-namespace"]
    assert world.told("ApplyPolicySucceed") == ["Apply cluster policy(p) succeed"]


def test_reserved_namespaces_stay_here() -> None:
    """The namespaces of the system and of Karmada are not propagated, as upstream."""
    world = PropagationScript()
    world.cluster_policy("p")
    for namespace in ("kube-system", "karmada-system", "karmada-es-m1", "shop"):
        world.deploy(namespace=namespace)
    assert [item["metadata"]["namespace"] for item in world.all(RESOURCE_BINDINGS)] == ["shop"]


# --- groups and labels --------------------------------------------------------------------------------


def test_groups_come_from_the_labels_of_the_resource() -> None:
    """As key=value; a label that is missing makes no group."""
    rules = {"affinity": {"groupByLabelKey": "a"}, "antiAffinity": {"groupByLabelKey": "b"}}
    world = PropagationScript()
    world.policy("p", placement={"workloadAffinity": rules})
    world.deploy("both", a="x", b="")
    world.deploy("one", a="x")
    world.deploy("none")
    groups = {name: world.binding(f"{name}-deployment")["spec"] for name in ("both", "one", "none")}
    assert groups["both"]["workloadAffinityGroups"] == {"affinityGroup": "a=x", "antiAffinityGroup": "b="}
    assert groups["one"]["workloadAffinityGroups"] == {"affinityGroup": "a=x"}
    assert "workloadAffinityGroups" not in groups["none"]


def test_the_labels_of_the_resource_are_on_its_binding() -> None:
    """They follow it, and labels that others put there stay."""
    world = PropagationScript()
    world.policy("p")
    world.deploy(app="web", tier="prod")
    world.change(RESOURCE_BINDINGS, "web-deployment", {"metadata": {"labels": {"mine": "x"}}})
    world.change(DEPLOYMENTS, "web", {"metadata": {"labels": {"tier": None, "app": "shop"}}})
    world.settle()
    labels = world.binding()["metadata"]["labels"]
    assert {k: v for k, v in labels.items() if "/" not in k} == {"app": "shop", "mine": "x"}


def test_rules_in_annotations_are_in_the_placement() -> None:
    """Those of the policy and those of the resource; a policy's placement is otherwise copied."""
    world = PropagationScript()
    mine = f"workloadAntiAffinity: {{{REQUIRED}: [{{labelSelector: {{}}, matchLabelKeys: [a]}}]}}"
    world.policy("p", annotation=mine, placement={"clusterAffinity": {"exclude": ["m1"]}})
    world.deploy()
    other = mine.replace("[a]", "[b]")
    world.change(DEPLOYMENTS, "web", {"metadata": {"annotations": {"berth.dev/workload-affinity": other}}})
    world.settle()
    terms = [{"labelSelector": {}, "matchLabelKeys": [key]} for key in "ab"]
    assert world.binding()["spec"]["placement"] == {
        "clusterAffinity": {"exclude": ["m1"]},
        "workloadAntiAffinity": {REQUIRED: terms},
    }


def test_an_annotation_that_cannot_be_read_changes_nothing() -> None:
    """The binding stays as it was, and the resource is told why."""
    world = PropagationScript()
    world.policy("p")
    world.deploy()
    before = world.binding()["spec"]
    note = {"berth.dev/workload-affinity": "workloadAffinities: {}"}
    world.change(DEPLOYMENTS, "web", {"metadata": {"annotations": note}, "spec": {"replicas": 9}})
    world.settle()
    assert world.binding()["spec"] == before
    (message,) = world.told("ApplyPolicyFailed")
    assert message.startswith("Apply policy(default/p) failed: metadata.annotations[berth.dev/workload-aff")


# --- keeping up -----------------------------------------------------------------------------------------


def test_a_change_of_the_policy_reaches_its_bindings() -> None:
    """Fields that are no longer there go, and the decision of the scheduler stays."""
    world = PropagationScript()
    world.policy(
        "p", placement={"clusterAffinity": {"clusterNames": ["m1"], "exclude": ["m2"]}}, failover={"a": 1}
    )
    world.deploy()
    world.change(RESOURCE_BINDINGS, "web-deployment", {"spec": {"clusters": [{"name": "m1"}]}})
    affinity = {"clusterNames": None, "exclude": ["m3"]}
    world.change(POLICIES, "p", {"spec": {"placement": {"clusterAffinity": affinity}, "failover": None}})
    world.settle()
    spec = world.binding()["spec"]
    assert spec["placement"] == {"clusterAffinity": {"exclude": ["m3"]}}
    assert "failover" not in spec
    assert spec["clusters"] == [{"name": "m1"}]


def test_a_status_is_no_reason_to_write() -> None:
    """The controllers here write that of a Deployment all the time."""
    world = PropagationScript()
    world.policy("p")
    world.deploy()
    del world.done[:]
    world.change(DEPLOYMENTS, "web", {"status": {"replicas": 1}})
    world.settle()
    assert world.done == []
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
    world.settle()
    assert verbs(world.done, RESOURCE_BINDINGS) == ["patch"]
    assert world.binding()["spec"]["replicas"] == 5


def test_a_lazy_policy_waits_for_the_resource() -> None:
    """Its changes take effect when the resource changes."""
    world = PropagationScript()
    world.policy("p", activationPreference="Lazy", placement={})
    world.deploy()
    world.change(POLICIES, "p", {"spec": {"schedulerName": "berth"}})
    world.settle()
    assert "schedulerName" not in world.binding()["spec"]
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 7}})
    world.settle()
    assert world.binding()["spec"]["schedulerName"] == "berth"


def test_suspension_of_scheduling_is_not_the_policys() -> None:
    """A policy only says what is dispatched."""
    world = PropagationScript()
    world.policy("p", suspension={"dispatching": True})
    world.deploy()
    world.change(RESOURCE_BINDINGS, "web-deployment", {"spec": {"suspension": {"scheduling": True}}})
    world.change(POLICIES, "p", {"spec": {"suspension": None}})
    world.settle()
    assert world.binding()["spec"]["suspension"] == {"scheduling": True}


def test_a_priority_class_becomes_a_number() -> None:
    """One that is not there is waited for, and that is said."""
    world = PropagationScript()
    urgent = {"priorityClassSource": "KubePriorityClass", "priorityClassName": "urgent"}
    world.policy("p", schedulePriority=urgent)
    world.deploy()
    assert world.bindings() == []
    (message,) = world.told("ApplyPolicyFailed")
    assert 'priorityclasses.scheduling.k8s.io "urgent" not found' in message
    world.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    world.advance(60)
    assert world.binding()["spec"]["schedulePriority"] == {"priority": 1000}


def test_a_binding_that_was_deleted_comes_back() -> None:
    """A binding that was deleted comes back as long as there is a policy for it."""
    world = PropagationScript()
    world.policy("p")
    world.deploy()
    world.delete(RESOURCE_BINDINGS, "web-deployment")
    world.settle()
    assert world.bindings() == ["web-deployment"]


def test_a_binding_of_another_resource_is_left_alone() -> None:
    """A resource of the same name was there before: its binding has to go first."""
    world = PropagationScript()
    world.policy("p")
    world.deploy()
    world.change(RESOURCE_BINDINGS, "web-deployment", {"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "old", "controller": True}
    ]}})  # fmt: skip
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 7}})
    world.settle()
    assert world.binding()["spec"]["replicas"] == 2
    assert "different owner reference UID" in world.told("ApplyPolicyFailed")[0]
    world.delete(RESOURCE_BINDINGS, "web-deployment")
    world.settle()
    assert world.binding()["spec"]["replicas"] == 7


# --- which policy -----------------------------------------------------------------------------------------


def test_which_policy_wins() -> None:
    """The priority first, then how closely it fits, then the name; a namespace's before a cluster's."""
    by_name = select(DEPLOYMENTS, name="web")
    by_label = select(DEPLOYMENTS, labelSelector={"matchLabels": {"app": "web"}})
    world = PropagationScript()
    world.cluster_policy("cluster", by_name, priority=100)
    world.policy("all")
    world.policy("labels-b", by_label)
    world.policy("labels-a", by_label)
    world.policy("other", select(DEPLOYMENTS, name="other"), priority=50)
    world.deploy(app="web")
    assert world.holder() == "labels-a"
    world.policy("named", by_name)
    world.policy("high", priority=1)
    assert world.holder() == "labels-a"  # first come, first served
    world.delete(POLICIES, "labels-a")
    world.settle()
    assert world.holder() == "high"
    for name in ("high", "named", "labels-b"):
        assert world.holder() == name
        world.delete(POLICIES, name)
        world.settle()
    assert world.holder() == "all"
    world.delete(POLICIES, "all")
    world.settle()
    assert world.holder() == "cluster"
    label = "propagationpolicy.karmada.io/permanent-id"
    assert label not in world.binding()["metadata"]["labels"]


def test_preemption() -> None:
    """A preempting policy takes over from one of lower priority, and from a cluster's in any case."""
    by_name = select(DEPLOYMENTS, name="web")
    world = PropagationScript()
    world.cluster_policy("cluster", priority=100)
    world.deploy()
    world.cluster_policy("low", by_name, priority=100, preemption="Always")
    assert world.holder() == "cluster"
    world.policy("first", by_name)
    assert world.holder() == "cluster"
    world.policy("second", by_name, preemption="Always")
    assert world.holder() == "second"
    world.policy("third", by_name, preemption="Always")
    assert world.holder() == "second"
    world.policy("fourth", by_name, preemption="Always", priority=1)
    assert world.holder() == "fourth"
    assert world.told("PreemptPolicySucceed") == [
        "Propagation policy(default/second) preempted cluster propagation policy(cluster) successfully",
        "Propagation policy(default/fourth) preempted propagation policy(default/second) successfully",
    ]


def test_without_its_policy_a_binding_stays() -> None:
    """It is nobody's then, and where it was put stays."""
    world = PropagationScript()
    world.policy("p")
    world.deploy(app="web")
    world.change(RESOURCE_BINDINGS, "web-deployment", {"spec": {"clusters": [{"name": "m1"}]}})
    world.delete(POLICIES, "p")
    world.settle()
    binding = world.binding()
    assert binding["spec"]["clusters"] == [{"name": "m1"}]
    assert world.holder() is None
    assert binding["metadata"]["labels"] == {"app": "web"}


def test_a_resource_that_is_selected_no_longer_is_let_go() -> None:
    """A resource that its policy selects no longer is let go as if the policy were gone."""
    world = PropagationScript()
    world.policy("p", select(DEPLOYMENTS, labelSelector={"matchLabels": {"app": "web"}}))
    world.deploy(app="web")
    world.change(DEPLOYMENTS, "web", {"metadata": {"labels": {"app": "db"}}})
    world.settle()
    assert world.holder() is None


def test_a_new_policy_of_the_same_name_is_another() -> None:
    """It has its own permanent id, which the binding gets."""
    world = PropagationScript()
    world.policy("p")
    world.deploy()
    world.delete(POLICIES, "p")
    again = world.policy("p", schedulerName="berth")
    label = "propagationpolicy.karmada.io/permanent-id"
    assert world.binding()["metadata"]["labels"][label] == again["metadata"]["labels"][label]
    assert world.binding()["spec"]["schedulerName"] == "berth"


def test_a_claimed_resource_is_not_touched() -> None:
    """A resource that something else of Karmada's claimed is not propagated."""
    world = PropagationScript()
    world.policy("p")
    label: dict[str, Any] = {"resourcetemplate.karmada.io/claimed-by": "multiclusterservices"}
    world.deploy(**label)
    assert world.bindings() == []


def test_without_policies_nothing_is_done() -> None:
    """Without policies nothing is done, and nothing is waited for."""
    world = PropagationScript()
    world.deploy()
    assert world.done == []
    assert [machine.due() for machine in world.machines] == [None, None, None]


# --- policies for nothing -------------------------------------------------------------------------------


def test_a_policy_that_selects_nothing_is_told() -> None:
    """A policy that selects nothing for a while gets an event that says so."""
    world = PropagationScript()
    nosuch = {"apiVersion": "x.io/v1", "kind": "Nothing"}
    world.policy("p", nosuch, select(DEPLOYMENTS, name="nosuch"))
    assert world.told("NoResourceMatched") == []
    world.advance(10)
    (message,) = world.told("NoResourceMatched")
    assert message.startswith("No resource matches the resourceSelectors.")
    assert message.endswith("There is no kind Nothing of x.io/v1 that can be propagated.")


def test_a_policy_whose_resource_follows_is_not() -> None:
    """One of its selectors is enough."""
    world = PropagationScript()
    world.policy("p", select(DEPLOYMENTS), select(FLINK))
    world.cluster_policy("c", select(DEPLOYMENTS, name="web"))
    world.deploy()
    world.advance(10)
    assert world.told("NoResourceMatched") == []


def test_creation_is_tried_once() -> None:
    """One binding, one request, though policy, resource and binding all say something."""
    world = PropagationScript()
    world.deploy()
    world.policy("p")
    created = [a for a in world.done if isinstance(a, Create) and a.resource == RESOURCE_BINDINGS]
    assert len(created) == 1
