"""Claims to devices in files: judged if there is any, and told of if there is none."""

from __future__ import annotations

import msgspec

from berth.kube.objects import Pod, ResourceClaim
from tests.support.builders import make_pod
from tests.support.snapshots import simulated, where, zone_node

A, B = zone_node("a", "1").build(), zone_node("b", "2").build()


def using(claim: str) -> Pod:
    built = msgspec.to_builtins(make_pod("p").build())
    built["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return msgspec.convert(built, Pod)


def claim(node: str | None) -> ResourceClaim:
    status: dict[str, object] = {}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        status["allocation"] = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    metadata = {"name": "gpu", "namespace": "default", "uid": "u"}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def test_an_allocated_claim_decides() -> None:
    """The pod goes where its devices are."""
    assert where(simulated(A, B, claim("b"), using("gpu"))) == {"p": "b"}


def test_a_claim_without_devices_keeps_the_pod_waiting() -> None:
    """What the scheduler would not bind is not placed here either, and so is a claim that is missing."""
    (unplaced,) = simulated(A, B, claim(None), using("gpu")).unplaced
    assert "default/gpu is not allocated, and Berth allocates no devices" in unplaced.message
    (missing,) = simulated(A, B, claim("b"), using("other")).unplaced
    assert 'could not find ResourceClaim "default/other"' in missing.message


def test_claims_that_are_not_among_the_files_are_told_of() -> None:
    """The pod is judged as if it had none, and the note says which pod that is about."""
    result = simulated(A, B, using("gpu"))
    assert where(result) == {"p": "a"}
    words = "there is no ResourceClaim among the files: the claims of pod default/p to devices are not judged"
    assert words in result.snapshot.notes
