"""`berth explain` and `berth simulate` on a live cluster: as on its dump, and nothing is written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli.input import manifests
from berth.kube.versions import NEWEST, VERSIONS, KubernetesVersion
from tests.support.api.client import Client, Json
from tests.support.api.objects import deployment, pod
from tests.support.api.servers import running_server
from tests.support.builders import ZONE
from tests.support.cli.command import Terminal, berth
from tests.support.processes.process import free_port


def node(name: str, zone: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone}},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two nodes; one pod runs, one is stuck, one waits, and the Deployment's pods were not made."""
    with running_server(tmp_path_factory.mktemp("data")) as client:
        client.made("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        for name, zone in (("n2", "b"), ("n1", "a")):
            client.made("/api/v1/nodes", node(name, zone))
        pods = "/api/v1/namespaces/shop/pods"
        client.made(pods, pod("runs", nodeName="n1", nodeSelector={ZONE: "a"}))
        client.made(pods, pod("stuck", nodeSelector={"disk": "ssd"}))
        client.made(pods, pod("claims", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
        client.made("/apis/apps/v1/namespaces/shop/deployments", deployment("web", replicas=3))
        yield client


@pytest.fixture
def kubeconfig(server: Client) -> Path:
    return server.prepared.kubeconfig


def test_a_pending_pod(kubeconfig: Path) -> None:
    """Every node with its reason, and what would help; exit code 1."""
    outcome = berth("explain", "stuck", "-n", "shop", "--kubeconfig", kubeconfig)

    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("Pod shop/stuck\n0/2 nodes are available: 2 node(s) didn't match Pod's")
    assert "nodeSelector wants disk=ssd, the node has no label disk" in outcome.out
    assert "without the nodeSelector disk=ssd, 2 nodes fit" in outcome.out


def test_a_running_pod(kubeconfig: Path) -> None:
    """It is where it is; its namespace need not be given."""
    outcome = berth("explain", "runs", "--kubeconfig", kubeconfig)

    assert (outcome.code, outcome.err) == (0, "")
    assert "shop/runs is starting on n1" in outcome.out  # no kubelet has said that it runs


def test_a_missing_claim_is_a_reason(kubeconfig: Path) -> None:
    """There is no claim in the cluster at all: that is known, other than from files without any."""
    outcome = berth("explain", "claims", "--kubeconfig", kubeconfig)

    assert outcome.code == 1
    assert 'persistentvolumeclaim "c" not found' in outcome.out


def test_a_workload_is_listed_when_it_is_asked_for(kubeconfig: Path) -> None:
    """A Deployment stands for its next replica."""
    outcome = berth("explain", "deploy/web", "--kubeconfig", kubeconfig)

    assert outcome.code == 0
    assert outcome.out.startswith("Pod shop/web-")


def test_a_pod_that_is_not_there(kubeconfig: Path) -> None:
    """Near names are listed."""
    outcome = berth("explain", "stukc", "-n", "shop", "--kubeconfig", kubeconfig)

    assert outcome.code == 2
    assert outcome.err == "error: pod shop/stukc is not in the cluster; did you mean shop/stuck?\n"


def test_simulate_places_what_waits(server: Client, kubeconfig: Path, tmp_path: Path) -> None:
    """Pods that exist and no others; nothing is changed, and all of it can be saved."""
    dump = tmp_path / "dump.json"
    made = server.made("/api/v1/namespaces/shop/pods", pod("waits"))
    outcome = berth("simulate", "--kubeconfig", kubeconfig, "-o", "json", "--save", dump)
    document = json.loads(outcome.out)
    path = "/api/v1/namespaces/shop/pods/waits"
    after = server.get(path).json
    server.delete(path, {"gracePeriodSeconds": 0})

    assert [(found["pod"], found["node"]) for found in document["placements"]] == [("waits", "n2")]
    assert sorted(found["pod"] for found in document["unplaced"]) == ["claims", "stuck"]
    assert made["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    assert berth("explain", "stuck", "-n", "shop", "-f", dump).code == 1


def test_the_default_is_kubectls(kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KUBECONFIG, of which some files may be missing, then the file in the home folder."""
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{kubeconfig}")
    assert berth("explain", "runs").code == 0

    monkeypatch.delenv("KUBECONFIG")
    outcome = berth("explain", "runs")
    assert outcome.code == 2
    assert outcome.err.startswith("error: there is neither -f nor --kubeconfig, $KUBECONFIG is not set, and")

    (home / ".kube" / "config").write_bytes(kubeconfig.read_bytes())
    assert berth("explain", "runs").code == 0


def test_the_context_counts(kubeconfig: Path) -> None:
    """One that is not there is refused by name."""
    outcome = berth("explain", "runs", "--kubeconfig", kubeconfig, "--context", "elsewhere")

    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "elsewhere" in outcome.err


def test_files_or_a_cluster(kubeconfig: Path) -> None:
    """Files and a kubeconfig together are refused."""
    outcome = berth("explain", "runs", "-f", "x.yaml", "--kubeconfig", kubeconfig)

    assert outcome.code == 2
    assert outcome.err.startswith("error: -f reads files and --kubeconfig a cluster; give one of them\n")


@pytest.mark.parametrize("content", ["a: [", "[]", "clusters: 1", "clusters: [{}]", "", "current-context: c"])
def test_a_kubeconfig_that_is_none(content: str, tmp_path: Path) -> None:
    """A file that is no kubeconfig is refused in one sentence that names it."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    outcome = berth("explain", "p", "--kubeconfig", path)

    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"error: {path}: ")


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    """A kubeconfig that is not there is refused in a sentence that says so."""
    outcome = berth("simulate", "--kubeconfig", tmp_path / "none")

    assert (2, f"error: {tmp_path / 'none'}: no such file\n") == (outcome.code, outcome.err)


def test_a_context_that_is_not_there(kubeconfig: Path) -> None:
    """It says where to look for those that are."""
    outcome = berth("audit", "--kubeconfig", kubeconfig, "--context", "other")

    wanted = (
        f"error: {kubeconfig}: it has no context other; 'kubectl config get-contexts' lists those it has\n"
    )
    assert (2, wanted) == (outcome.code, outcome.err)


def changed(kubeconfig: Path, target: Path, **cluster: Any) -> Path:
    """A kubeconfig with another cluster."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = cluster
    target.write_text(yaml.safe_dump(config))
    return target


def test_in_the_name_of_another(kubeconfig: Path, tmp_path: Path) -> None:
    """Whom a kubeconfig impersonates, with all the groups it names, the server asks for rights."""
    config, target = yaml.safe_load(kubeconfig.read_text()), tmp_path / "config"
    outcomes = []
    for groups in (["devs"], ["devs", "system:masters"]):
        config["users"][0]["user"] |= {"as": "jane", "as-groups": groups}
        target.write_text(yaml.safe_dump(config))
        outcomes.append(berth("explain", "runs", "--kubeconfig", target))
    assert [outcome.code for outcome in outcomes] == [2, 0]
    assert 'is forbidden: User "jane" cannot list resource' in outcomes[0].err


def test_a_server_that_cannot_be_reached(kubeconfig: Path, tmp_path: Path) -> None:
    """A server that cannot be reached is told in one sentence with the address and the cause."""
    url = f"https://127.0.0.1:{free_port()}"
    outcome = berth("explain", "p", "--kubeconfig", changed(kubeconfig, tmp_path / "config", server=url))

    assert (2, f"error: {url} cannot be reached: Connection refused\n") == (outcome.code, outcome.err)


def test_a_server_that_is_not_trusted(server: Client, tmp_path: Path) -> None:
    """A server whose certificate the kubeconfig's authority did not sign is not read."""
    url = server.prepared.url
    config = changed(server.prepared.kubeconfig, tmp_path / "config", server=url)
    outcome = berth("explain", "p", "--kubeconfig", config)

    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith(f"error: {url} cannot be reached: its certificate is not trusted: ")


def test_a_token_that_is_not_accepted(kubeconfig: Path, tmp_path: Path) -> None:
    """Nothing can be listed, which is said once."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "wrong"}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    outcome = berth("explain", "p", "--kubeconfig", path)

    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "does not accept these credentials: Unauthorized" in outcome.err


def test_progress_of_listing(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, a cluster that takes long to list shows how far it is."""
    shown = Terminal()
    monkeypatch.setattr(manifests, "_SHOW_AFTER", 0.0)
    monkeypatch.setattr(manifests, "_SHOW_EVERY", 0.0)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    flags: manifests.Flags = {
        "files": (),
        "kubeconfig": str(kubeconfig),
        "context": None,
        "validate": "warn",
        "kubernetes_version": NEWEST.name,
        "hard_pod_affinity_weight": 1,
        "daemon_namespaces": frozenset(),
        "feature_gates": "",
    }
    manifests.read_input(flags)

    assert "listing" in shown.getvalue()


def test_files_need_no_client() -> None:
    """`explain -f` does not import what only a live cluster needs."""
    program = (
        "import sys; from berth.cli.main import run; run(['explain', 'p', '-f', 'none.yaml']); "
        "sys.exit(bool({'aiohttp', 'kubernetes_asyncio', 'berth.live'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, b"error: none.yaml: no such file or folder\n")


@pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))
def test_groups_are_listed_where_a_pod_is_in_one(tmp_path: Path, version: KubernetesVersion) -> None:
    """The PodGroups of a cluster count, in the version it has them in."""
    with running_server(tmp_path, version=version) as client:
        client.made("/api/v1/nodes", node("n1", "a"))
        client.made("/api/v1/namespaces", {"metadata": {"name": "gang"}})
        gang = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        client.made(f"/apis/scheduling.k8s.io/{version.pod_group_api}/namespaces/gang/podgroups", gang)
        member = pod("m0", schedulingGroup={"podGroupName": "train"})
        client.made("/api/v1/namespaces/gang/pods", member)
        outcome = berth("explain", "m0", "-n", "gang", "--kubeconfig", client.prepared.kubeconfig)
    assert (outcome.code, outcome.err) == (1, "")
    assert "waiting for pods of group gang/train: 1 of 2 exist" in outcome.out


def test_assumed_daemon_namespaces(tmp_path: Path) -> None:
    """They are told where a pod outside of them has required anti-affinity: its scheduler may have others."""
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": ZONE}]}
    commands = (("simulate",), ("explain", "lonely"), ("audit",))
    with running_server(tmp_path / "data") as client:
        client.made("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        client.made("/api/v1/nodes", node("n1", "a"))
        lonely = pod("lonely", affinity={"podAntiAffinity": rules})
        client.made("/api/v1/namespaces/shop/pods", lonely)
        live = ("--kubeconfig", client.prepared.kubeconfig, "-o", "json")
        for flags, names, words in (
            ((), ["kube-system"], "pods in kube-system are left out"),
            (("--daemon-namespaces", "infra,cni"), ["cni", "infra"], "pods in cni, infra are left out"),
            (("--daemon-namespaces", ""), [], "no pods are left out"),
        ):
            for command in commands:
                outcome = berth(*command, *live, *flags)
                document = json.loads(outcome.out)
                assert document["daemonNamespaces"] == names
                assert f"note: {words} of required anti-affinity; " in outcome.err
                assert [f"note: {each}" for each in document["notes"]] == outcome.err.splitlines()
        for command in commands:
            outcome = berth(*command, *live, "--daemon-namespaces", "shop")
            assert "daemonNamespaces" not in json.loads(outcome.out)
            assert outcome.err == ""


def test_files_say_nothing_about_daemon_namespaces(tmp_path: Path) -> None:
    """Where no scheduler is at work there is none to contradict."""
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": ZONE}]}
    file = tmp_path / "all.yaml"
    lonely = {"apiVersion": "v1", "kind": "Pod", **pod("lonely", affinity={"podAntiAffinity": rules})}
    file.write_text(yaml.safe_dump_all([node("n1", "a"), lonely]))
    outcome = berth("simulate", "-f", file, "-o", "json")
    assert (outcome.code, outcome.err) == (0, "")
    assert "daemonNamespaces" not in json.loads(outcome.out)


@pytest.mark.parametrize(("version", "codes"), [("1.36", [1, 1, 0]), ("1.37", [0, 1, 0])])
def test_the_version_of_a_cluster(tmp_path: Path, version: str, codes: list[int]) -> None:
    """A cluster is read as the version it says, unless another one is given."""
    open_only = {"matchExpressions": [{"key": "restricted", "operator": "DoesNotExist"}]}
    term = {"labelSelector": {}, "namespaceSelector": open_only, "topologyKey": "kubernetes.io/hostname"}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    with running_server(tmp_path / "data", version=VERSIONS[version]) as client:
        client.made("/api/v1/nodes", node("n1", "a"))
        closed = {"metadata": {"name": "closed", "labels": {"restricted": "yes"}}}
        client.made("/api/v1/namespaces", closed)
        client.made("/api/v1/namespaces/closed/pods", pod("neighbour", nodeName="n1"))
        lonely = pod("lonely", affinity={"podAntiAffinity": rules})
        client.made("/api/v1/namespaces/default/pods", lonely)
        live = ("explain", "lonely", "--kubeconfig", client.prepared.kubeconfig)
        given = [(), ("--kubernetes-version", "1.36"), ("--kubernetes-version", "1.37")]
        assert [berth(*live, *flags).code for flags in given] == codes
