"""Pods with an identity: their names, ordinals, labels and claims.

Upstream: pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from berth.controllers.actions import create
from berth.controllers.workloads.pods import pod_from, wanted
from berth.kube.api_resources import CLAIMS, STATEFUL_SETS
from berth.kube.objects import LivePod, LiveWorkload, RawObject, key_of
from berth.kube.ownership import owner_reference
from berth.kube.well_known import POD_INDEX, POD_NAME, REVISION_HASH
from berth.machines.contract import Create


def ordinals(stateful_set: LiveWorkload) -> range:
    start = (stateful_set.spec.ordinals.start if stateful_set.spec.ordinals else None) or 0
    return range(start, start + wanted(stateful_set))


def pod_name(stateful_set: LiveWorkload, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def ordinal_of(stateful_set: LiveWorkload, pod: LivePod) -> int | None:
    """The pod's number, None if its name is not one of the set's."""
    base, _, number = (pod.metadata.name or "").rpartition("-")
    return int(number) if base == stateful_set.metadata.name and number.isdigit() else None


def stateful_pod(
    stateful_set: LiveWorkload, ordinal: int, revision: str, template: RawObject | None
) -> RawObject:
    name = pod_name(stateful_set, ordinal)
    pod = pod_from(
        template,
        owner_reference(STATEFUL_SETS, stateful_set.metadata),
        stateful_set.metadata.namespace,
        name=name,
        labels={POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: revision},
    )
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    claims = {
        claim["metadata"]["name"]: claim_name(stateful_set, claim, ordinal)
        for claim in stateful_set.spec.volume_claim_templates or ()
    }
    if claims:
        kept = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claims]
        made = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in claims.items()
        ]
        spec["volumes"] = [*kept, *made]
    return pod


def claim_name(stateful_set: LiveWorkload, claim: RawObject, ordinal: int) -> str:
    return f"{claim['metadata']['name']}-{stateful_set.metadata.name}-{ordinal}"


def claims_of(stateful_set: LiveWorkload, ordinal: int) -> Iterator[Create]:
    """The claims the pod with this number needs."""
    key = key_of(stateful_set.metadata)
    selector = stateful_set.spec.selector
    for template in stateful_set.spec.volume_claim_templates or ():
        body = copy.deepcopy(template)
        metadata = body.setdefault("metadata", {})
        metadata["name"] = claim_name(stateful_set, template, ordinal)
        metadata["namespace"] = key[0]
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            **((selector.match_labels if selector else None) or {}),
        }
        body.pop("status", None)
        body |= {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind}
        yield create(CLAIMS, key, body, f"pod {pod_name(stateful_set, ordinal)} claims it")
