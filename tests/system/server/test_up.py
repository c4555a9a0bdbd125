"""`berth up` from the outside: what it prints, how it stops, and what real kubectl can do with it."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.control_plane import KUBECTL, Up, refused, up
from tests.support.processes.process import alive, free_port

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: example/web:1, resources: {requests: {cpu: 100m}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"""

OTHERS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: example/db:1}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingRequiredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: agent, operator: NotIn, values: ["no"]}]}]
      containers: [{name: agent, image: example/agent:1}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completions: 3
  parallelism: 3
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: example/sum:1}]}}
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("up"), "--nodes", "6", "--zones", "3", "--racks", "2") as running:
        yield running


# --- without a scheduler ------------------------------------------------------------------------


@needs_kubectl
def test_pods_may_be_left_to_another_scheduler(tmp_path: Path) -> None:
    """With --no-scheduler pods wait for a binding from elsewhere, and run once there is one."""
    with up(tmp_path / "d", "--nodes", "1", "--no-scheduler") as running:
        running.kubectl("apply", "-f", "-", stdin=WEB)
        running.until(lambda: len(running.get("pods")["items"]) == 3)
        pods = running.get("pods")["items"]
        assert not [pod for pod in pods if pod["spec"].get("nodeName") or pod["status"].get("conditions")]

        name = pods[0]["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-0001"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        running.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
        running.until(lambda: running.get("pod", name)["status"]["phase"] == "Running")


# --- starting and stopping ----------------------------------------------------------------------


def test_it_says_where_it_is_and_stops_cleanly(tmp_path: Path) -> None:
    """Kubeconfig, address and a line to try; exit code 0 on SIGTERM; no process is left behind."""
    with up(tmp_path / "d", "--nodes", "2") as running:
        text = "\n".join(running.output)
        assert "https://127.0.0.1:" in text
        assert "kubectl --kubeconfig" in text
        assert Path(running.kubeconfig).stat().st_mode & 0o777 == 0o600
        server = running.server_pid
        assert running.stop() == 0
        assert not alive(server)


def test_ctrl_c_stops_it(tmp_path: Path) -> None:
    """Ctrl-C stops `berth up` with exit code 0."""
    with up(tmp_path / "d", "--nodes", "1") as running:
        assert running.stop(signal.SIGINT) == 0


def test_the_server_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """The server ends when its parent was killed."""
    with up(tmp_path / "d", "--nodes", "1") as running:
        server = running.server_pid
        running.process.kill()
        running.process.wait()
        running.until(lambda: not alive(server))


def test_a_dead_server_ends_everything_with_a_sentence(tmp_path: Path) -> None:
    """When the server dies all ends with a sentence, and nothing goes on half alive."""
    with up(tmp_path / "d", "--nodes", "1") as running:
        os.kill(running.server_pid, signal.SIGKILL)
        assert running.process.wait(timeout=120) == 2
        rest = running.process.stdout.read() if running.process.stdout else ""
        assert "error: the API server ended unexpectedly" in rest


def test_a_data_directory_belongs_to_one_instance(tmp_path: Path) -> None:
    """The second one is refused and touches nothing."""
    with up(tmp_path / "d", "--nodes", "1") as running:
        before = Path(running.kubeconfig).read_bytes()
        code, error = refused("--data-dir", tmp_path / "d", "--port", str(free_port()))
        assert (2, f"error: {tmp_path / 'd'}: another berth up is using this data directory") == (code, error)
        assert before == Path(running.kubeconfig).read_bytes()


def test_a_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    """A taken port is told in one sentence, with exit code 2."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, error = refused("--data-dir", tmp_path / "d", "--port", str(port))
    assert (2, f"error: cannot listen on port {port} of 127.0.0.1: Address already in use") == (code, error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--feature-gates", "Nope=true"), "--feature-gates: unrecognized feature gate: Nope"),
        (("--kubelet-feature-gates", "No=1"), "--kubelet-feature-gates: unrecognized feature gate: No"),
        (("--node-file", "missing.yaml"), "missing.yaml: no such file or folder"),
    ],
)
def test_bad_options_are_clear_errors(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Bad options are refused with a sentence and exit code 2."""
    code, error = refused("--data-dir", tmp_path / "d", *arguments)
    assert code == 2
    assert error.startswith(f"error: {message}")


@needs_kubectl
def test_a_restart_continues(tmp_path: Path) -> None:
    """Nodes, workloads and pods are there again."""
    with up(tmp_path / "d", "--nodes", "2") as running:
        running.kubectl("apply", "-f", "-", stdin=WEB)
        running.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        before = {item["metadata"]["uid"] for item in running.get("pods,nodes")["items"]}
    with up(tmp_path / "d") as running:
        running.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        assert before == {item["metadata"]["uid"] for item in running.get("pods,nodes")["items"]}
        running.kubectl("scale", "deployment/web", "--replicas=4")
        running.kubectl("rollout", "status", "deployment/web", "--timeout=120s")


@needs_kubectl
def test_nodes_may_come_from_a_file(tmp_path: Path) -> None:
    """Nodes from a file have its labels, taints and capacity."""
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: big, labels: {disk: ssd}}\n"
        "spec: {taints: [{key: k, effect: NoSchedule}]}\n"
        'status: {capacity: {cpu: "96", memory: 1Ti, pods: "500"}}\n'
    )
    with up(tmp_path / "d", "--node-file", file) as running:
        (node,) = running.get("nodes")["items"]
        assert (
            node["metadata"]["name"],
            node["metadata"]["labels"]["disk"],
            node["status"]["allocatable"]["cpu"],
            node["spec"]["taints"][0]["key"],
        ) == ("big", "ssd", "96", "k")


@needs_kubectl
def test_the_demonstration_shows_what_fits_and_what_does_not(tmp_path: Path) -> None:
    """Everything runs but the one pod that is too large."""
    with up(tmp_path / "d", "--demo") as running:

        def settled() -> bool:
            pods = running.get("pods")["items"]
            phases = {p["metadata"]["name"]: p["status"].get("phase") for p in pods}
            return len(pods) == 11 and [n for n, phase in phases.items() if phase != "Running"] == ["report"]

        running.until(settled)
        assert "FailedScheduling" in running.kubectl("describe", "pod", "report")
        assert "web" in running.kubectl("get", "pdb")


# --- kubectl ---------------------------------------------------------------------------------------


def pods_of(plane: Up, label: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = plane.get("pods", "-l", label)["items"]
    return items


@needs_kubectl
def test_a_deployment_from_apply_to_delete(plane: Up) -> None:
    """Apply, rollout status, scale, restart, history, undo, describe, wait and delete."""
    plane.kubectl("apply", "-f", "-", stdin=WEB)
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    zones = {pod["spec"]["nodeName"] for pod in pods_of(plane, "app=web")}
    assert len(zones) == 3
    plane.kubectl("scale", "deployment/web", "--replicas=5")
    plane.kubectl("wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=5", "--timeout=120s")
    plane.kubectl("set", "image", "deployment/web", "web=example/web:2")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    plane.kubectl("rollout", "restart", "deployment/web")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    history = plane.kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line.strip()] == ["1", "2", "3"]
    plane.kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    images = {pod["spec"]["containers"][0]["image"] for pod in pods_of(plane, "app=web")}
    assert {"example/web:1"} == images
    assert "ScalingReplicaSet" in plane.kubectl("describe", "deployment", "web")
    plane.kubectl("delete", "deployment/web", "pdb/web", "--timeout=120s")
    plane.until(lambda: not pods_of(plane, "app=web"))
    assert plane.get("replicasets")["items"] == []


@needs_kubectl
def test_cordon_and_drain_respect_the_budget(plane: Up) -> None:
    """Draining two nodes at once never leaves fewer pods than the budget wants."""
    plane.kubectl("apply", "-f", "-", stdin=WEB)
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods_of(plane, "app=web")})[:2]
    plane.kubectl("drain", *nodes, "--ignore-daemonsets", "--force", "--timeout=150s")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    assert not {pod["spec"]["nodeName"] for pod in pods_of(plane, "app=web")} & set(nodes)
    assert "SchedulingDisabled" in plane.kubectl("get", "node", nodes[0])
    plane.kubectl("uncordon", *nodes)
    plane.kubectl("scale", "deployment/web", "--replicas=1")
    plane.until(lambda: len(pods_of(plane, "app=web")) == 1)
    plane.kubectl("patch", "pdb", "web", "--type=merge", "-p", '{"spec": {"maxUnavailable": 0}}')
    plane.until(lambda: plane.get("pdb", "web")["status"]["disruptionsAllowed"] == 0)
    (pod,) = pods_of(plane, "app=web")
    said = plane.kubectl("drain", pod["spec"]["nodeName"], "--ignore-daemonsets", "--timeout=3s", check=False)
    assert "violate the pod's disruption budget" in said
    plane.kubectl("uncordon", pod["spec"]["nodeName"])
    plane.kubectl("delete", "deployment/web", "pdb/web", "--timeout=120s")


@needs_kubectl
def test_other_workloads_follow_labels_and_taints(plane: Up) -> None:
    """A StatefulSet, a Job and a DaemonSet that leaves nodes which no longer match."""
    plane.kubectl("apply", "-f", "-", stdin=OTHERS)
    plane.kubectl("rollout", "status", "statefulset/db", "--timeout=120s")
    plane.kubectl("rollout", "status", "daemonset/agent", "--timeout=120s")
    plane.kubectl("wait", "job/sum", "--for=condition=complete", "--timeout=120s")
    assert {"db-0", "db-1"} == {pod["metadata"]["name"] for pod in pods_of(plane, "app=db")}
    assert len(pods_of(plane, "app=agent")) == 6
    plane.kubectl("label", "node", "node-0001", "agent=no")
    plane.until(lambda: len(pods_of(plane, "app=agent")) == 5)
    plane.kubectl("label", "node", "node-0001", "agent-")
    plane.until(lambda: len(pods_of(plane, "app=agent")) == 6)
    plane.kubectl("taint", "node", "node-0002", "maintenance=yes:NoExecute")
    living = "app in (db, agent)"
    plane.until(lambda: all(pod["spec"].get("nodeName") != "node-0002" for pod in pods_of(plane, living)))
    plane.kubectl("taint", "node", "node-0002", "maintenance-")
    plane.kubectl("delete", "statefulset/db", "daemonset/agent", "job/sum", "--timeout=120s")
    plane.until(lambda: not plane.get("pods")["items"])


@needs_kubectl
def test_a_namespace_goes_with_its_contents(plane: Up) -> None:
    """kubectl delete namespace waits for it."""
    plane.kubectl("apply", "-f", "-", stdin="apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
    plane.kubectl("apply", "-n", "shop", "-f", "-", stdin=WEB)
    plane.kubectl("rollout", "status", "-n", "shop", "deployment/web", "--timeout=120s")
    plane.kubectl("delete", "namespace", "shop", "--timeout=120s")
    assert plane.get("pods", "-n", "shop")["items"] == []


@needs_kubectl
def test_a_bound_pod_that_does_not_fit_is_rejected_by_its_node(plane: Up) -> None:
    """The scheduler is passed by with spec.nodeName; the hollow kubelet is not."""
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: stray}
spec:
  nodeName: node-0003
  nodeSelector: {no: such}
  containers: [{name: c, image: example/c:1}]
"""
    plane.kubectl("apply", "-f", "-", stdin=pod)
    plane.until(lambda: plane.get("pod", "stray")["status"].get("phase") == "Failed")
    assert plane.get("pod", "stray")["status"]["reason"] == "NodeAffinity"
    plane.kubectl("delete", "pod", "stray", "--timeout=120s")


@needs_kubectl
def test_orphans_stay_when_asked_for(plane: Up) -> None:
    """kubectl delete --cascade=orphan leaves the pods, foreground waits for them."""
    plane.kubectl("apply", "-f", "-", stdin=WEB)
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    plane.kubectl("delete", "deployment/web", "pdb/web", "--cascade=orphan", "--timeout=120s")
    (replica_set,) = plane.get("replicasets")["items"]
    plane.until(lambda: "ownerReferences" not in plane.get("replicasets")["items"][0]["metadata"])
    assert len(pods_of(plane, "app=web")) == 3
    name = replica_set["metadata"]["name"]
    plane.kubectl("delete", f"replicaset/{name}", "--cascade=foreground", "--timeout=120s")
    assert pods_of(plane, "app=web") == []


@needs_kubectl
def test_a_node_that_is_applied_runs_what_it_is_given(plane: Up) -> None:
    """A newcomer's own nodes are as good as the others, unless they say otherwise."""
    file = "apiVersion: v1\nkind: Node\nmetadata: {{name: {0}, labels: {{{1}}}}}\n"
    plane.kubectl("apply", "-f", "-", stdin=file.format("mine", "mine: mine"))
    plane.kubectl("apply", "-f", "-", stdin=file.format("theirs", "mine: theirs, berth.dev/hollow: 'false'"))
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    plane.until(
        lambda: (
            [taint.items() <= one.items() for one in plane.get("node", "theirs")["spec"].get("taints", ())]
            == [True]
        )
    )
    for label in ("mine", "theirs"):
        spec = {"nodeSelector": {"mine": label}, "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": label}, "spec": spec}
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    plane.kubectl("wait", "--for=condition=Ready", "pod/mine", "node/mine", "--timeout=60s")
    plane.until(lambda: bool(plane.get("pod", "theirs")["status"].get("conditions")))
    assert "nodeName" not in plane.get("pod", "theirs")["spec"]
    assert not plane.get("node", "mine")["spec"].get("taints")
    plane.kubectl("delete", "pod/mine", "pod/theirs", "node/mine", "node/theirs", "--wait=false")


@needs_kubectl
def test_a_component_may_lack_a_feature(tmp_path: Path) -> None:
    """A scheduler without the execution-time rule places pods that their node refuses, ever more slowly."""
    rule = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "nowhere", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": rule}}
    labels = {"app": "web"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]},
        },
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    flags = ("--scheduler-feature-gates", "NodeAffinityEviction=false")
    with up(tmp_path / "d", "--nodes", "1", *flags) as running:
        running.kubectl("apply", "-f", "-", stdin=json.dumps(body))
        running.until(lambda: len(running.get("pods")["items"]) >= 4)  # there were 1, 2 seconds between them
        reasons = {pod["status"].get("reason") for pod in running.get("pods")["items"][:3]}
        assert reasons == {"NodeAffinity"}
        first, *_, last = sorted(
            pod["metadata"]["creationTimestamp"] for pod in running.get("pods")["items"][:4]
        )
        assert first < last
