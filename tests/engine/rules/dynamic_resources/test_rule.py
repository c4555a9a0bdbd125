"""Claims to devices that others have allocated, and those that nobody has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ResourceClaimChanged
from berth.engine.state.options import Options
from berth.kube.defaults import default_node
from berth.kube.objects import Node, Pod, ResourceClaim
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage import causes, class_of, cluster_with, feasible, message

UID = "uid-p"


def claim(name: str = "gpu", on: str | None = None, **status: Any) -> ResourceClaim:
    """A claim that is allocated, on a node if one is given."""
    devices: dict[str, Any] = {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}
    allocation: dict[str, Any] = {"devices": devices}
    if on is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **status.pop("metadata", {})}
    return msgspec.convert(
        {"metadata": metadata, "status": {"allocation": allocation, **status}}, type=ResourceClaim
    )


def pod(*names: str, made: dict[str, str | None] | None = None) -> PodBuilder:
    """A pod with claims by name, or by a template from which those that are `made` were."""
    claims = [{"name": f"c-{name}", "resourceClaimName": name} for name in names]
    claims += [{"name": name, "resourceClaimTemplateName": "t"} for name in made or ()]
    statuses = [{"name": name, "resourceClaimName": made_name} for name, made_name in (made or {}).items()]
    built = msgspec.to_builtins(make_pod("p").build())
    built["metadata"]["uid"] = UID
    built["spec"]["resourceClaims"] = claims
    if statuses:
        built["status"] = {"resourceClaimStatuses": statuses}
    return PodBuilder(msgspec.convert(built, Pod))


def cluster_of(*claims: ResourceClaim, options: Options | None = None) -> Cluster:
    cluster = cluster_with(make_node("a"), make_node("b"), options=options)
    cluster.resource_claims.known = True
    for each in claims:
        cluster.resource_claims.set_claim(each)
    return cluster


# --- claims that have devices ---------------------------------------------------------------------


def test_a_pod_goes_where_its_devices_are() -> None:
    """The allocation's node selector is a rule like the pod's own; without one every node will do."""
    cluster = cluster_of(claim(on="b"), claim("net"))
    assert feasible(cluster, pod("gpu")) == ["b"]
    assert feasible(cluster, pod("net")) == ["a", "b"]
    assert feasible(cluster, pod("gpu", "net")) == ["b"]
    words = ("claim gpu is allocated for field metadata.name=b",)
    assert causes(cluster, pod("gpu"), "a") == {"DynamicResources": words}


def test_claims_in_different_places_fit_nowhere() -> None:
    """Every claim has its say, and no node is in both places."""
    cluster = cluster_of(claim("one", on="a"), claim("two", on="b"))
    assert message(cluster, pod("one", "two")) == "2 resourceclaim not available on the node."


def test_a_claim_from_a_template_is_the_one_that_was_made() -> None:
    """It is named in the pod's status, and must be the pod's own; one that is not needed counts as none."""
    own = claim("p-gpu-x", on="b", metadata={"ownerReferences": [{"uid": UID, "controller": True}]})
    cluster = cluster_of(own)
    assert feasible(cluster, pod(made={"gpu": "p-gpu-x"})) == ["b"]
    assert feasible(cluster, pod(made={"gpu": None})) == ["a", "b"]
    cluster.resource_claims.set_claim(claim("p-gpu-x", on="b"))
    words = "ResourceClaim default/p-gpu-x was not created for Pod default/p (Pod is not owner)."
    assert message(cluster, pod(made={"gpu": "p-gpu-x"})) == words


def test_devices_that_failed_are_no_devices() -> None:
    """A condition that says that a device cannot be made ready refuses every node."""
    result = {"driver": "d", "pool": "p", "device": "x", "bindingConditions": ["Up"]}
    devices = {"results": [{**result, "bindingFailureConditions": ["Down"]}]}
    state = {"driver": "d", "pool": "p", "device": "x"}
    broken = {"type": "Down", "status": "True", "reason": "Broken", "message": "no power"}
    cluster = cluster_of(claim(allocation={"devices": devices}, devices=[{**state, "conditions": [broken]}]))
    assert message(cluster, pod("gpu")) == "2 resourceclaim not available on the node."
    cluster.resource_claims.set_claim(claim(allocation={"devices": devices}, devices=[state]))
    assert feasible(cluster, pod("gpu")) == ["a", "b"]


def test_operations_that_may_be_left_out_need_a_kubelet_that_can() -> None:
    """The node has to declare the feature."""
    result = {"driver": "d", "pool": "p", "device": "x", "skipNodeOperations": ["Prepare"]}
    cluster = cluster_of(claim(allocation={"devices": {"results": [result]}}))
    assert not feasible(cluster, pod("gpu"))
    able = msgspec.to_builtins(make_node("b").build())
    able["status"]["declaredFeatures"] = ["DRAOptionalNodeOperations"]
    cluster.add_node(default_node(msgspec.convert(able, Node)))
    assert feasible(cluster, pod("gpu")) == ["b"]


def test_a_claim_has_so_many_consumers() -> None:
    """A claim that is reserved for 256 pods takes no other, but those that it is reserved for."""
    others = [{"resource": "pods", "name": f"o{i}", "uid": f"o{i}"} for i in range(256)]
    cluster = cluster_of(claim(reservedFor=others))
    assert message(cluster, pod("gpu")) == "resourceclaim in use."
    own = {"resource": "pods", "name": "p", "uid": UID}
    cluster.resource_claims.set_claim(claim(reservedFor=[own, *others[1:]]))
    assert feasible(cluster, pod("gpu")) == ["a", "b"]
    cluster.resource_claims.set_claim(claim(reservedFor=others[1:]))
    assert feasible(cluster, pod("gpu")) == ["a", "b"]


# --- claims that have none ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "asking", "words"),
    [
        ([], pod("gpu"), 'could not find ResourceClaim "default/gpu".'),
        (
            [claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            pod("gpu"),
            'resourceclaim "gpu" is being deleted.',
        ),
        (
            [claim(allocation=None)],
            pod("gpu"),
            "resource claim default/gpu is not allocated, and Berth allocates no devices.",
        ),
    ],
    ids=["missing", "going", "unallocated"],
)
def test_a_claim_without_devices_is_a_reason(
    there: list[ResourceClaim], asking: PodBuilder, words: str
) -> None:
    """The pod fits nowhere, and the sentence says which claim stands in its way."""
    cluster = cluster_of(*there)
    assert message(cluster, asking) == words
    assert not feasible(cluster, asking)


def test_a_claim_that_was_not_made_yet_is_waited_for() -> None:
    """A template alone is no claim, and neither is an entry that names nothing."""
    built = msgspec.to_builtins(pod(made={"gpu": "x"}).build())
    del built["status"]
    waiting = PodBuilder(msgspec.convert(built, Pod))
    assert message(cluster_of(), waiting) == 'pod "default/p": ResourceClaim not created yet.'
    built["spec"]["resourceClaims"] = [{"name": "odd"}]
    odd = PodBuilder(msgspec.convert(built, Pod))
    unset = 'pod "default/p", spec.resourceClaim "odd": none of the supported fields are set.'
    assert message(cluster_of(), odd) == unset


def test_a_profile_may_leave_claims_alone() -> None:
    """Without the plugin pods are placed as if they had none, and so they are where none is known."""
    disabled = Options(disabled=frozenset({"DynamicResources"}))
    assert feasible(cluster_of(options=disabled), pod("gpu")) == ["a", "b"]
    unknown = cluster_of()
    unknown.resource_claims.known = False
    assert feasible(unknown, pod("gpu")) == ["a", "b"]


# --- what helps -----------------------------------------------------------------------------------


def test_only_a_change_of_its_own_claims_helps() -> None:
    """A pod that waits for a claim is tried again when that one changes."""
    cluster = cluster_of(claim(allocation=None), claim("other"))
    assert not feasible(cluster, pod("gpu"))
    waiting = class_of(cluster, pod("gpu"))
    assert not can_help(cluster, waiting, {"DynamicResources"}, ResourceClaimChanged("default", "other"))
    cluster.resource_claims.set_claim(claim(on="a"))
    assert can_help(cluster, waiting, {"DynamicResources"}, ResourceClaimChanged("default", "gpu"))
    assert feasible(cluster, pod("gpu")) == ["a"]


def test_a_change_that_placement_cannot_see_is_none() -> None:
    """The same state again changes nothing; a reservation does."""
    index = cluster_of(claim()).resource_claims
    assert not index.set_claim(claim(metadata={"resourceVersion": "9", "labels": {"a": "b"}}))
    assert index.set_claim(claim(reservedFor=[{"resource": "pods", "name": "p", "uid": UID}]))
    assert index.remove_claim("default", "gpu")
    assert not index.remove_claim("default", "gpu")
