"""What differs between the versions of Kubernetes that Berth follows, named here and nowhere else.

A version is data: rules and other code ask for what they need to know by its name, never for the version.  A
further version is one more entry of the table below, with a field for whatever it changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesVersion:
    """How one minor version of Kubernetes behaves; what is not said of it is as in the oldest one."""

    name: str  # major and minor, as users write it
    release: str  # the very release that was compared with, as servers and kubelets say it
    # A namespaceSelector of only NotIn and DoesNotExist requirements selects among the namespaces there are;
    # before, one of the *incoming* pod covered every namespace.
    exact_namespace_selectors: bool = False
    # The rules about a node's name, cordon and taints have a PreFilter step, and that about its name comes
    # first and narrows the nodes that the others are asked about.
    early_prefilters: bool = False
    # Image volumes raise the amount of bytes that counts as having all images.
    image_volumes_counted: bool = False
    # The requests of a pod as a whole are completed by those of its containers when it is created; before,
    # whenever it was read, and only if it had limits as a whole.
    pod_requests_completed: bool = False
    # What a pod holds while it is resized is the largest of three sums (what it wants, was allocated and
    # has); before, it was the sum of the largest for every container.
    footprint_by_pod: bool = False
    # A CSIDriver may ask that no pod with its volumes goes where it is not installed.
    missing_drivers_refuse: bool = False
    # A pod for which room is being made is told where, and at how many pods' expense.
    preemption_told: bool = False
    pod_group_api: str = "v1alpha2"  # the version of scheduling.k8s.io that PodGroups and Workloads are in
    # The condition of a PodGroup that says whether it was placed.
    pod_group_condition: str = "PodGroupScheduled"
    # Nodes are scored by how full the storage of a pod's new volumes would be.
    storage_capacity_scored: bool = False
    # The scheduler's metrics tell groups of pods from pods that wait for themselves.
    entities_counted: bool = False


OLDEST = KubernetesVersion(name="1.36", release="v1.36.4")
NEWEST = KubernetesVersion(
    name="1.37",
    release="v1.37.0",
    exact_namespace_selectors=True,
    early_prefilters=True,
    image_volumes_counted=True,
    pod_requests_completed=True,
    footprint_by_pod=True,
    missing_drivers_refuse=True,
    preemption_told=True,
    pod_group_api="v1beta1",
    pod_group_condition="PodGroupInitiallyScheduled",
    storage_capacity_scored=True,
    entities_counted=True,
)

# By name, the oldest first.
VERSIONS = {version.name: version for version in (OLDEST, NEWEST)}

_RELEASE = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """Which version a server says it is, and as which it is followed."""

    followed: KubernetesVersion
    said: str = ""  # as the server says it, such as ``v1.37.2-gke.100``; empty if it does not
    note: str | None = None  # what to tell if that is not one of ours; None if it is


def version_of_server(said: str, why: str = "it does not say which") -> ServerVersion:
    """How to follow a server: as the version in its `gitVersion`, or as the nearest one there is.

    `why` says why that cannot be known, if it cannot be read.
    """
    found = _RELEASE.match(said)
    if found is None:
        note = f"the server's version is not known ({why}); it is followed as {NEWEST.name}"
        return ServerVersion(NEWEST, said, note)
    numbers = (int(found[1]), int(found[2]))
    known = {tuple(map(int, name.split("."))): version for name, version in VERSIONS.items()}
    if numbers in known:
        return ServerVersion(known[numbers], said)
    nearest, age = (OLDEST, "older") if numbers < min(known) else (NEWEST, "newer")
    note = f"the server is {said}, {age} than what Berth knows; it is followed as {nearest.name}"
    return ServerVersion(nearest, said, note)
