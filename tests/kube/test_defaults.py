"""What the API server fills in on creation."""

from __future__ import annotations

import pytest

from berth.kube.defaults import (
    created,
    default_namespace,
    default_node,
    default_pod,
    merge_label_keys,
    taken_in,
)
from berth.kube.objects import Namespace, Node, Pod, PodAffinityTerm, ResourceList
from berth.kube.versions import NEWEST, VERSIONS, KubernetesVersion
from tests.kube import written


def requests(spec: str) -> ResourceList | None:
    containers = default_pod(written.pod(spec)).spec.containers
    assert containers
    assert containers[0].resources
    return containers[0].resources.requests


def test_requests_are_filled_from_limits() -> None:
    """A limit without a request is also the request; a request that is there stays."""
    spec = "containers: [{resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]"
    assert requests(spec) == {"cpu": 1, "memory": "1Gi"}


def test_init_containers_get_the_same_defaults() -> None:
    """Requests from limits, protocol and host port are filled in for init containers too."""
    pod = default_pod(
        written.pod("""
            hostNetwork: true
            initContainers: [{resources: {limits: {cpu: 2}}, ports: [{containerPort: 80}]}]
        """)
    )
    (container,) = pod.spec.init_containers or []
    (port,) = container.ports or []
    assert container.resources
    assert container.resources.requests == {"cpu": 2}
    assert (port.protocol, port.host_port) == ("TCP", 80)


def test_host_ports_are_only_defaulted_on_the_host_network() -> None:
    """Without hostNetwork a port gets its protocol and nothing else."""
    pod = default_pod(written.pod("containers: [{ports: [{containerPort: 80}]}]"))
    (container,) = pod.spec.containers or []
    (port,) = container.ports or []
    assert (port.protocol, port.host_port) == ("TCP", None)


def pod_level(
    resources: str, *containers: str, version: KubernetesVersion = NEWEST
) -> tuple[ResourceList | None, ResourceList | None]:
    listed = ", ".join(f"{{resources: {text}}}" for text in containers)
    spec = created(written.pod(f"{{resources: {resources}, containers: [{listed}]}}"), version).spec
    assert spec.resources
    return spec.resources.requests, spec.resources.limits


def test_pod_requests_are_those_of_the_containers_together() -> None:
    """With a pod-level limit, open pod-level requests are the sum over the containers."""
    found, _ = pod_level("{limits: {cpu: 4, memory: 2Gi}}", "{requests: {cpu: 500m}}", "{requests: {cpu: 1}}")
    assert found == {"cpu": "1500m", "memory": "2Gi"}


@pytest.mark.parametrize(("version", "memory"), [("1.36", {}), ("1.37", {"memory": "1Gi"})])
def test_pod_requests_needed_a_pod_limit(version: str, memory: ResourceList) -> None:
    """Without any pod-level limit nothing was filled in before 1.37."""
    found, _ = pod_level("{requests: {cpu: 4}}", "{requests: {memory: 1Gi}}", version=VERSIONS[version])
    assert found == {"cpu": 4, **memory}


def test_pod_requests_are_completed_once() -> None:
    """Since 1.37 it is done on creation: a pod that a server has stored is left as it is."""
    text = "{metadata: {uid: u}, spec: {resources: {requests: {cpu: 4}}, containers: [{resources: %s}]}}"
    pod = written.view(Pod, text % "{requests: {memory: 1Gi}}")
    assert taken_in(pod) is pod


def test_huge_page_limits_of_containers_become_the_pods() -> None:
    """Huge pages cannot be overcommitted, so the pod's limit, and thereby its request, is their sum."""
    pages = "{limits: {hugepages-2Mi: 4Mi, cpu: 1}}"
    found = pod_level("{requests: {cpu: 4}}", pages, pages, version=VERSIONS["1.36"])
    assert found == ({"cpu": 4, "hugepages-2Mi": "8Mi"}, {"hugepages-2Mi": "8Mi"})


def test_a_misspelt_quantity_does_not_stop_defaulting() -> None:
    """Defaulting leaves it for validation to report."""
    pod = written.pod("{resources: {limits: {cpu: 1}}, containers: [{resources: {requests: {cpu: 1x}}}]}")
    assert pod is default_pod(pod)


def test_a_node_can_allocate_its_capacity() -> None:
    """Allocatable defaults to capacity, and stays if it is there, even if empty."""
    node = default_node(written.view(Node, "{metadata: {name: a}, status: {capacity: {cpu: 4}}}"))
    assert node.status
    assert node.status.allocatable == {"cpu": 4}
    kept = written.view(Node, "{metadata: {name: a}, status: {capacity: {cpu: 4}, allocatable: {}}}")
    assert kept is default_node(kept)


def test_a_namespace_carries_its_name_as_a_label() -> None:
    """The label replaces any given value."""
    text = "metadata: {name: prod, labels: {kubernetes.io/metadata.name: other, tier: gold}}"
    labels = default_namespace(written.view(Namespace, text)).metadata.labels
    assert labels == {"kubernetes.io/metadata.name": "prod", "tier": "gold"}


TERM = (
    "{labelSelector: {matchLabels: {app: web}}, topologyKey: zone,"
    " matchLabelKeys: [version, absent], mismatchLabelKeys: [tenant]}"
)
LABELS = "labels: {app: web, version: v2, tenant: blue}"


@pytest.mark.parametrize(
    "variant",
    [
        "requiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingRequiredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ],
)
@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
def test_label_keys_become_requirements(variant: str, side: str) -> None:
    """matchLabelKeys and mismatchLabelKeys that the pod has labels for are appended to the selector."""
    term = f"{{weight: 1, podAffinityTerm: {TERM}}}" if variant.startswith("preferred") else TERM
    pod = merge_label_keys(written.pod(f"affinity: {{{side}: {{{variant}: [{term}]}}}}", LABELS))
    affinity = pod.spec.affinity
    assert affinity
    both = affinity.pod_affinity or affinity.pod_anti_affinity
    assert both
    terms: list[PodAffinityTerm | None] = [
        *(both.required_during_scheduling_ignored_during_execution or ()),
        *(both.required_during_scheduling_required_during_execution or ()),
        *(w.pod_affinity_term for w in both.preferred_during_scheduling_ignored_during_execution or ()),
    ]
    (merged,) = terms
    assert merged
    assert merged.label_selector
    found = [(e.key, e.operator, e.values) for e in merged.label_selector.match_expressions or ()]
    assert found == [("version", "In", ["v2"]), ("tenant", "NotIn", ["blue"])]


def test_label_keys_of_spread_constraints_become_requirements() -> None:
    """Spread constraints merge their matchLabelKeys the same way."""
    spec = "topologySpreadConstraints: [{labelSelector: {}, matchLabelKeys: [version]}]"
    (constraint,) = merge_label_keys(written.pod(spec, LABELS)).spec.topology_spread_constraints or []
    assert constraint.label_selector
    (added,) = constraint.label_selector.match_expressions or []
    assert (added.key, added.operator, added.values) == ("version", "In", ["v2"])


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "containers: [{ports: [{containerPort: 80, protocol: TCP}]}]",
        "containers: [{resources: {limits: {cpu: 1}, requests: {cpu: 1}}}]",
        "topologySpreadConstraints: [{matchLabelKeys: [version]}]",
        "topologySpreadConstraints: [{labelSelector: {}, matchLabelKeys: [absent]}]",
        "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}",
        "resources: {requests: {cpu: 1}}",
    ],
)
def test_what_needs_no_change_is_not_copied(spec: str) -> None:
    """A pod that is complete comes back as the very same object."""
    pod = written.pod(spec, LABELS)
    assert pod is created(pod)


def test_a_pod_copied_from_a_server_is_not_merged_again() -> None:
    """Its label keys were merged when it was created; its uid tells."""
    spec = "topologySpreadConstraints: [{labelSelector: {}, matchLabelKeys: [version]}]"
    stored = written.pod(spec, "{uid: abc, labels: {version: v2}}")
    assert stored is taken_in(stored)
    new = written.pod(spec, LABELS)
    assert created(new) == taken_in(new)
