"""Workloads expanded to pods."""

from __future__ import annotations

import io
from textwrap import dedent

import pytest

from berth.kube.defaults import resolve_priorities
from berth.kube.manifests.manifest import Manifest, load
from berth.kube.objects import Pod, PriorityClass
from berth.kube.validation.objects import validate_pod
from berth.kube.workloads import expansion
from berth.kube.workloads.expansion import Expansion, ExpansionError, expand
from tests.kube import written

TEMPLATE = """
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx, resources: {limits: {cpu: 1}}}]}
"""


def manifests(*texts: str) -> list[Manifest]:
    return load(["-"], io.BytesIO("\n---\n".join(map(dedent, texts)).encode()))


def workload(
    kind: str, spec: str = "", *, api: str = "apps/v1", name: str = "web", metadata: str = ""
) -> str:
    head = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}{metadata}}}\n"
    head += "spec:\n  selector: {matchLabels: {app: web}}\n"
    return head + "".join(f"  {line}\n" for line in spec.splitlines()) + TEMPLATE.lstrip("\n")


def owned(name: str, kind: str, owner: str, *, phase: str = "Running", more: str = "") -> str:
    return f"""\
kind: Pod
metadata:
  name: {name}
  ownerReferences: [{{apiVersion: v1, kind: {kind}, name: {owner}, uid: u, controller: true}}]
{more}
spec: {{nodeName: node-{name}}}
status: {{phase: {phase}}}
"""


def names(expansion: Expansion) -> list[str]:
    return [pod.metadata.name or "" for pod in expansion.pods]


def only(expansion: Expansion) -> Pod:
    (pod,) = expansion.pods
    return pod


def owner(pod: Pod) -> tuple[str | None, str | None]:
    (reference,) = pod.metadata.owner_references or []
    assert reference.controller
    return reference.kind, reference.name


ALL_KINDS = [
    workload("Deployment"),
    workload("ReplicaSet", name="rs"),
    workload("StatefulSet", name="sts"),
    workload("DaemonSet", name="ds"),
    workload("Job", api="batch/v1", name="job"),
    "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: rc}\nspec:" + TEMPLATE,
    "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: cron}\nspec:\n  jobTemplate:\n    spec:"
    + TEMPLATE.replace("\n", "\n    "),
]


def test_every_kind_of_workload_makes_valid_pods() -> None:
    """Each makes one replica by default, owned, labelled and acceptable to the API server."""
    expansion = expand(manifests(*ALL_KINDS), node_names=["node-1"])
    assert len(expansion.pods) == len(ALL_KINDS)
    for pod in expansion.pods:
        assert validate_pod(pod) == []
        assert (pod.metadata.labels or {})["app"] == "web"
        (container,) = pod.spec.containers or []
        assert container.resources
        assert container.resources.requests == {"cpu": 1}
    assert [entry.origin.name for entry in expansion.created] == [
        "web",
        "rs",
        "sts",
        "ds",
        "job",
        "rc",
        "cron",
    ]


def test_expansion_is_deterministic() -> None:
    """The same manifests give the same pods; another template gives another hash."""
    text = workload("Deployment", "replicas: 2")
    assert expand(manifests(text)) == expand(manifests(text))
    assert names(expand(manifests(text))) != names(expand(manifests(text.replace("nginx", "httpd"))))


def test_a_deployment_acts_through_a_replica_set() -> None:
    """Its pods are owned by, and labelled like, a ReplicaSet that is returned with them."""
    expansion = expand(manifests(workload("Deployment", "replicas: 3")))
    (replica_set,) = expansion.replica_sets
    base = replica_set.metadata.name
    digest = (base or "").removeprefix("web-")
    assert names(expansion) == [f"{base}-0", f"{base}-1", f"{base}-2"]
    for pod in expansion.pods:
        assert owner(pod) == ("ReplicaSet", base)
        assert pod.metadata.labels == {"app": "web", "pod-template-hash": digest}
    assert replica_set.spec.selector
    assert replica_set.spec.selector.match_labels == {"app": "web", "pod-template-hash": digest}


def test_pods_that_exist_count_against_a_deployment() -> None:
    """Through any ReplicaSet whose name belongs to it; finished and leaving pods do not count."""
    expansion = expand(
        manifests(
            workload("Deployment", "replicas: 4"),
            owned("a", "ReplicaSet", "web-abc"),
            owned("b", "ReplicaSet", "web-abc"),
            owned("c", "ReplicaSet", "web-abc", phase="Failed"),
            owned("d", "ReplicaSet", "web-abc", more="  deletionTimestamp: 2024-01-01T00:00:00Z"),
            owned("e", "ReplicaSet", "web-other-abc"),
        )
    )
    assert names(expansion) == ["web-abc-0", "web-abc-1"]
    assert {(pod.metadata.labels or {})["pod-template-hash"] for pod in expansion.pods} == {"abc"}


def test_a_replica_set_of_a_deployment_is_not_expanded_twice() -> None:
    """With both among the manifests the Deployment's number counts, and the ReplicaSet gets the pods."""
    reference = (
        ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]"
    )
    labels = ", labels: {pod-template-hash: xyz}"
    texts = (
        workload("Deployment", "replicas: 3"),
        workload("ReplicaSet", "replicas: 3", name="web-xyz", metadata=reference + labels),
        workload("ReplicaSet", "replicas: 0", name="web-old", metadata=reference),
        owned("a", "ReplicaSet", "web-xyz"),
    )
    expansion = expand(manifests(*texts))
    assert names(expansion) == ["web-xyz-0", "web-xyz-1"]
    assert expansion.replica_sets == []
    alone = expand(manifests(*texts[1:]))
    assert names(alone) == ["web-xyz-0", "web-xyz-1"]


def test_more_pods_than_replicas_are_left_alone() -> None:
    """Scaling down is not ours."""
    text = workload("ReplicaSet", "replicas: 0")
    assert names(expand(manifests(text, owned("a", "ReplicaSet", "web")))) == []


def test_new_pods_do_not_take_existing_names() -> None:
    """A pod of the same name, whoever owns it, is stepped over."""
    text = workload("ReplicaSet", "replicas: 2")
    expansion = expand(manifests(text, "{kind: Pod, metadata: {name: web-1}}"))
    assert names(expansion) == ["web-0", "web-2"]


def test_a_stateful_set_numbers_its_pods() -> None:
    """Missing ordinals are filled; each pod says who it is."""
    text = workload("StatefulSet", "replicas: 3\nordinals: {start: 5}")
    expansion = expand(manifests(text, owned("web-6", "StatefulSet", "web")))
    assert names(expansion) == ["web-5", "web-7"]
    labels = expansion.pods[0].metadata.labels or {}
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-5"
    assert labels["apps.kubernetes.io/pod-index"] == "5"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", 1),
        ("parallelism: 3", 3),
        ("completions: 3", 1),
        ("{parallelism: 5, completions: 3}", 3),
        ("{parallelism: 2, completions: 3}", 2),
        ("parallelism: 0", 0),
        ("suspend: true", 0),
    ],
)
def test_a_job_runs_as_many_pods_as_it_may_at_once(spec: str, expected: int) -> None:
    """Parallelism, but never more than are still to complete."""
    fields = "\n".join(f"{k}: {str(v).lower()}" for k, v in (written.value(spec) if spec else {}).items())
    expansion = expand(manifests(workload("Job", fields, api="batch/v1")))
    assert len(expansion.pods) == expected
    for pod in expansion.pods:
        assert (pod.metadata.labels or {})["batch.kubernetes.io/job-name"] == "web"


def test_completions_and_running_pods_of_a_job_count() -> None:
    """What has succeeded need not run again; what runs need not be started."""
    text = workload("Job", "parallelism: 3\ncompletions: 4", api="batch/v1")
    done = [owned(name, "Job", "web", phase="Succeeded") for name in ("a", "b")]
    assert len(expand(manifests(text, *done)).pods) == 2
    assert len(expand(manifests(text, *done, owned("c", "Job", "web"))).pods) == 1
    finished = text + "status: {conditions: [{type: Complete, status: 'True'}]}\n"
    assert expand(manifests(finished)).pods == []


def test_pods_of_an_indexed_job_know_their_index() -> None:
    """In a label and an annotation; indexes in use are left out."""
    text = workload("Job", "parallelism: 2\ncompletions: 3\ncompletionMode: Indexed", api="batch/v1")
    running = owned("x", "Job", "web", more="  annotations: {batch.kubernetes.io/job-completion-index: '0'}")
    pod = only(expand(manifests(text, running)))
    assert pod.metadata.name == "web-1"
    assert pod.metadata.annotations == {"batch.kubernetes.io/job-completion-index": "1"}


def test_a_cron_job_gives_the_pods_of_one_run() -> None:
    """The next one, unless it is suspended or a run is going on."""
    cron = ALL_KINDS[-1]
    assert owner(only(expand(manifests(cron))))[0] == "Job"
    assert (
        expand(manifests(cron.replace("spec:\n  jobTemplate", "spec:\n  suspend: true\n  jobTemplate"))).pods
        == []
    )
    reference = (
        ", ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: cron, uid: u, controller: true}]"
    )
    run = workload("Job", api="batch/v1", name="cron-123", metadata=reference)
    assert names(expand(manifests(cron, run))) == ["cron-123-0"]
    assert names(expand(manifests(cron, run, owned("a", "Job", "cron-123")))) == []


def test_a_daemon_set_has_a_pod_for_every_node() -> None:
    """Pinned to its node by name, tolerating what daemons tolerate; nodes that are served get none."""
    nodes = [f"{{kind: Node, metadata: {{name: n{i}}}}}" for i in range(3)]
    expansion = expand(
        manifests(workload("DaemonSet"), *nodes, owned("n0", "DaemonSet", "web").replace("node-", ""))
    )
    assert names(expansion) == ["web-n1", "web-n2"]
    pod = expansion.pods[0]
    affinity = pod.spec.affinity
    assert affinity
    assert affinity.node_affinity
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required
    (term,) = required.node_selector_terms or []
    assert term
    assert [(r.key, r.operator, r.values) for r in term.match_fields or ()] == [
        ("metadata.name", "In", ["n1"])
    ]
    keys = {(toleration.key, toleration.effect) for toleration in pod.spec.tolerations or ()}
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in keys
    assert ("node.kubernetes.io/not-ready", "NoExecute") in keys
    assert ("node.kubernetes.io/network-unavailable", "NoSchedule") not in keys


def test_a_daemon_keeps_its_own_node_affinity() -> None:
    """The pin is added to every term of it, so that scheduling can tell which nodes are eligible."""
    affinity = (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:"
        " [{matchExpressions: [{key: gpu, operator: Exists}]},"
        " {matchExpressions: [{key: fpga, operator: Exists}]}]}}}"
    )
    text = workload("DaemonSet").replace("containers:", f"{affinity}, containers:")
    pod = only(expand(manifests(text), node_names=["n1"]))
    assert pod.spec.affinity
    assert pod.spec.affinity.node_affinity
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required
    for term, key in zip(required.node_selector_terms or (), ("gpu", "fpga"), strict=True):
        assert term
        assert [r.key for r in term.match_expressions or ()] == [key]
        assert [r.values for r in term.match_fields or ()] == [["n1"]]


# --- priorities -----------------------------------------------------------------------------------


def priority_class(name: str, value: int, more: str = "") -> PriorityClass:
    return written.view(PriorityClass, f"{{metadata: {{name: {name}}}, value: {value}{more}}}")


def test_priority_classes_become_numbers() -> None:
    """A named class, a system class, the global default; a number that is there stays."""
    classes = [
        priority_class("high", 1000, ", preemptionPolicy: Never"),
        priority_class("base", 5, ", globalDefault: true"),
        priority_class("low", 3, ", globalDefault: true"),
    ]
    pods = [
        written.pod(spec)
        for spec in (
            "priorityClassName: high",
            "priorityClassName: system-node-critical",
            "priorityClassName: unknown",
            "priority: 7",
            "",
        )
    ]
    resolved = resolve_priorities(pods, classes)
    assert [pod.spec.priority for pod in resolved] == [1000, 2_000_001_000, None, 7, 3]
    assert resolved[0].spec.preemption_policy == "Never"
    assert resolved[2] is pods[2]
    assert resolved[3] is pods[3]
    assert resolve_priorities(pods[4:], ()) == pods[4:]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (workload("Deployment", "replicas: 2147483647"), "Deployment default/web: spec.replicas: 2147483647"),
        (
            workload("StatefulSet", "replicas: 2147483647"),
            "StatefulSet default/web: spec.replicas: 2147483647",
        ),
        (
            workload("Job", "parallelism: 2147483647\ncompletions: 2147483647", api="batch/v1"),
            "Job default/web: spec.parallelism: 2147483647",
        ),
        (
            workload(
                "Job",
                "parallelism: 2000000000\ncompletions: 2147483647\ncompletionMode: Indexed",
                api="batch/v1",
            ),
            "Job default/web: spec.parallelism: 2000000000",
        ),
    ],
)
def test_too_many_pods_are_not_made(text: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip in a number names its field instead of filling the memory."""
    monkeypatch.setattr(expansion, "MAX_PODS_OF_A_WORKLOAD", 100)
    with pytest.raises(ExpansionError) as error:
        expand(manifests(text))
    assert str(error.value).startswith(f"standard input: {field} is too much; at most 100 pods are made")


def test_too_many_pods_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many pods together are refused, though each workload is modest."""
    monkeypatch.setattr(expansion, "MAX_PODS", 5)
    pair = [workload("ReplicaSet", "replicas: 3", name=name) for name in ("a", "b")]
    assert len(expand(manifests(pair[0])).pods) == 3
    with pytest.raises(ExpansionError, match=r"ReplicaSet default/b: .* more than 5 pods"):
        expand(manifests(*pair))


def test_pods_there_are_do_not_count_as_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on what is made up."""
    monkeypatch.setattr(expansion, "MAX_PODS_OF_A_WORKLOAD", 1)
    texts = [workload("StatefulSet", "replicas: 3")]
    texts += [owned(f"web-{i}", "StatefulSet", "web") for i in range(2)]
    assert [pod.metadata.name for pod in expand(manifests(*texts)).pods] == ["web-2"]
