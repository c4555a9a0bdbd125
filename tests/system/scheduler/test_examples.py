"""The examples of the documents, created as they are, land where the rules say."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from berth.engine.offline.snapshot import Entry
from tests.support.cli.example_placements import EXAMPLES
from tests.support.processes.control_plane import KUBECTL
from tests.support.worlds.cluster import CORE, ClusterWorld, manifest
from tests.system.scheduler.example_file import Example

# Left out: pods whose owners are made by controllers, and clusters that are in files of their own.
FILES = sorted(
    f"{folder}/{path.name}"
    for folder in ("node-affinity", "pod-affinity", "topology-spread")
    for path in (EXAMPLES / folder).glob("*.yaml")
    if path.name not in {"default-spreading.yaml", "match-label-keys.yaml"}
    and not path.name.startswith("infeasible-zone")
)


@pytest.mark.parametrize("file", FILES)
def test_an_example_lands_where_it_should(scheduled: ClusterWorld, file: str) -> None:
    """Every pod is on one of the nodes that are best for it in its turn, or waits if there is none."""
    example = Example.of(file)
    for name, labels in example.namespaces.items():
        scheduled.add_namespace(name, labels)
    for body in example.nodes:
        scheduled.make(f"{CORE}/nodes", body)
    for path, body in example.owners:
        scheduled.make(path, body)
    for entry in example.running:
        scheduled.add_pod(manifest(entry.pod), namespace=entry.namespace)
    scheduled.settled()
    waiting: list[Entry] = []
    for entry in example.pending:
        best = example.best(entry)
        scheduled.add_pod(manifest(entry.pod), namespace=entry.namespace)
        scheduled.namespace = entry.namespace
        if best:
            node = scheduled.bound(entry.name)
            assert node in best, entry.name
            example.follow(entry, node)
        else:
            scheduled.refused(entry.name)
            waiting.append(entry)
    for entry in waiting:
        scheduled.namespace = entry.namespace
        best = example.best(entry)
        if best:
            assert scheduled.bound(entry.name) in best
        else:
            assert scheduled.node_of(entry.name) is None


# Examples in which every pod has but one place to go: file -> pod -> node, None if it has to wait.
CERTAIN: dict[str, dict[str, str | None]] = {
    "node-affinity/node-selector-and-affinity.yaml": {"app": "node-a-ssd"},
    "node-affinity/preferred-weights.yaml": {"app": "node-b"},
    "pod-affinity/shared-license.yaml": {"planner": "node-b", "renderer": "node-c"},
    "pod-affinity/four-rules.yaml": {"p": "n4"},
    "pod-affinity/preferred-terms-add-up.yaml": {"app": "node-b"},
    "topology-spread/max-skew-1.yaml": {"foo-new": "node3"},
    "topology-spread/zones-3-2-1.yaml": {"foo-new": "node3a"},
    "topology-spread/rolling-upgrade-deadlock.yaml": {"web-new": None},
}


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
@pytest.mark.parametrize("file", CERTAIN)
def test_kubectl_creates_an_example(scheduled: ClusterWorld, file: str) -> None:
    """The file as it is, but for the scheduler's name, is all a user has to hand over."""
    documents = [one for one in yaml.safe_load_all((EXAMPLES / file).read_text()) if one]
    for item in (item for one in documents for item in one.get("items", [one])):
        if item["kind"] == "Pod":
            item["spec"]["schedulerName"] = scheduled.scheduler_name
    command = [KUBECTL or "", "--kubeconfig", str(scheduled.backend.kubeconfig), "create", "-f", "-"]
    done = subprocess.run(  # noqa: S603
        [*command, "--namespace", scheduled.namespace],
        input=yaml.safe_dump_all(documents),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    for pod, node in CERTAIN[file].items():
        if node is None:
            scheduled.refused(pod)
        else:
            assert scheduled.bound(pod) == node
