"""Karmada's API on `berth up`, with real kubectl: from policy to binding and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.control_plane import KUBECTL, up

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: ha}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment}]
  placement:
    workloadAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {}, matchLabelKeys: [karmada.io/group]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: flinkdeployments.flink.apache.org}
spec:
  group: flink.apache.org
  scope: Namespaced
  names: {plural: flinkdeployments, kind: FlinkDeployment}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

FLINK = """
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: a, labels: {karmada.io/group: indexer}}
"""

CLUSTER = """
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member1}
spec: {zone: zone-a, region: eu}
status: {kubernetesVersion: v1.36.4, resourceSummary: {allocatable: {cpu: "8"}}}
"""


@needs_kubectl
def test_a_resource_of_a_kind_that_came_later_is_propagated(tmp_path: Path) -> None:
    """Its definition, its policy and itself all arrive while the control plane runs."""
    with up(tmp_path / "d", "--nodes", "1") as running:
        running.kubectl("apply", "-f", "-", stdin=CLUSTER)
        running.kubectl("apply", "-f", "-", stdin=CLUSTER)
        assert "v1.36.4" in running.kubectl("get", "clusters")
        running.kubectl("apply", "-f", "-", stdin=POLICY)
        running.kubectl("apply", "-f", "-", stdin=FLINK)
        running.until(lambda: len(running.get("rb")["items"]) == 1)
        binding = running.get("rb", "a-flinkdeployment")
        assert binding["metadata"]["labels"]["karmada.io/group"] == "indexer"
        assert "workloadAntiAffinity" in binding["spec"]["placement"]
        explained = running.kubectl("explain", "pp.spec.placement.workloadAntiAffinity")
        assert "requiredDuringSchedulingIgnoredDuringExecution" in explained
        running.kubectl("delete", "flinkdeployment", "a")
        running.until(lambda: not running.get("rb")["items"])
