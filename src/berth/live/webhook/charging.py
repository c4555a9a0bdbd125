"""Charging quotas for what a new pod keeps for itself, before it is stored.

The quota's status says what is used, as for Kubernetes' own admission: it is read, compared, and written only
if nobody has written to it since. If a pod is admitted here and refused by somebody else afterwards,
`berth controllers` corrects the status when it counts the pods again.
"""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec

from berth.kube.amounts.resource_lists import Amounts, difference, masked
from berth.kube.api_resources import NODES, RESOURCE_QUOTAS
from berth.kube.objects import Node, Pod, RawObject
from berth.kube.quota.charging import (
    QuotaError,
    charged,
    check_counted,
    check_room,
    is_about,
    limits_of,
    noted,
    pending_in,
)
from berth.kube.quota.exclusive import (
    EXCLUSIVE_NAMES,
    LARGEST,
    BlockedNodes,
    Exclusion,
    NodeSizes,
    cost,
    exclusion_of,
)
from berth.kube.quota.usage import PODS
from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.kube.well_known import EXCLUSIVE_PENDING
from berth.live.client import Client, Selection
from berth.live.errors import ApiError
from berth.live.webhook.admission import AdmissionRequest, MalformedReviewError

_FRESH = 10.0  # seconds for which a list of the nodes is good enough
_TRIES = 8  # to write to a quota that others write to as well
_BUSY = "the quota is being charged by others; try again"


class QuotaCharger:
    """Charges quotas through an API server.

    Args:
        client: With the rights to list nodes and quotas, and to update the status of quotas.
        estimate: For which of the nodes it could get a pod is charged.
    """

    def __init__(self, client: Client, estimate: str = LARGEST) -> None:
        self._client = client
        self._estimate = estimate
        self._nodes = NodeSizes()
        self._listed = float("-inf")

    async def charge(self, request: AdmissionRequest) -> str:
        """Why the pod in a review may not be stored; empty if it may, and then it is charged.

        Raises:
            ApiError: the quotas cannot be read or written.
        """
        if (request.kind.group, request.kind.kind) != ("", "Pod") or request.sub_resource not in (
            "",
            "status",
        ):
            return ""
        pod, old = _pod(request, request.new), _pod(request, request.old)
        exclusion = exclusion_of(pod) if pod is not None else None
        before = exclusion_of(old) if old is not None else None
        if (
            pod is None
            or exclusion is None
            or (before is not None and set(before.rules) >= set(exclusion.rules))
        ):
            return ""
        quotas = [quota for quota in await self._quotas(request.namespace) if is_about(quota, PODS, pod)]
        if not quotas:
            return ""
        await self._list_nodes()
        more = self._more(exclusion, before)
        try:
            for quota in quotas:
                _check(quota, more)
            if not request.dry_run:
                for quota in quotas:
                    await self._write(quota, pod.metadata.uid or request.uid, more)
        except QuotaError as error:
            return str(error)
        return ""

    async def _quotas(self, namespace: str) -> list[RawObject]:
        """Those that limit what is exclusive."""
        found = await self._client.list_all(RESOURCE_QUOTAS, dict, Selection(namespace=namespace))
        return [quota for quota in found if any(name in limits_of(quota) for name in EXCLUSIVE_NAMES)]

    async def _list_nodes(self) -> None:
        now = time.monotonic()
        if now - self._listed > _FRESH:
            nodes = {node.metadata.name or "": node for node in await self._client.list_all(NODES, Node)}
            versions = {name: node.metadata.resource_version or "" for name, node in nodes.items()}
            self._nodes.keep(versions, nodes.__getitem__)
            self._listed = now

    def _more(self, exclusion: Exclusion, before: Exclusion | None) -> BlockedNodes:
        """The additional charge for a pod's new rules, beside that for the rules it had."""
        after = cost([exclusion], self._nodes, self._estimate)
        # A rule about namespaces that do not exist yet may have been charged nothing.
        kept = [r for r in before.rules if r.everywhere or r in exclusion.rules] if before is not None else []
        known = BlockedNodes()
        if before is not None and kept:
            known = cost([replace(before, rules=tuple(kept))], self._nodes, self._estimate)
        return BlockedNodes(*(max(new - old, 0) for new, old in zip(after, known, strict=True)))

    async def _write(self, quota: RawObject, uid: str, more: BlockedNodes) -> None:
        """Charge a quota if so much is left; after a conflict it is read and judged again."""
        name, namespace = quota["metadata"]["name"], quota["metadata"]["namespace"]
        for _ in range(_TRIES):
            wanted = _check(quota, more)
            now = time.time()
            pending = {**pending_in(quota, now), uid: (now, more)}
            annotations = {**(quota["metadata"].get("annotations") or {}), EXCLUSIVE_PENDING: noted(pending)}
            body = {
                **quota,
                "apiVersion": RESOURCE_QUOTAS.api_version,
                "kind": RESOURCE_QUOTAS.kind,
                "metadata": {**quota["metadata"], "annotations": annotations},
                "status": charged(quota, wanted) or quota["status"],
            }
            try:
                await self._client.update(RESOURCE_QUOTAS, body, namespace, "status")
            except ApiError as error:
                if error.code == 404:
                    return  # the quota was deleted, so nothing is limited
                if error.code != 409:
                    raise
            else:
                return
            quota = msgspec.json.decode(await self._client.get(RESOURCE_QUOTAS, name, namespace))
        raise QuotaError(_BUSY)


def _check(quota: RawObject, more: BlockedNodes) -> Amounts:
    """What a quota is to be charged of all that a pod blocks.

    Raises:
        QuotaError: not so much is left, or its usage has not been counted yet.
    """
    names = [name for name in EXCLUSIVE_NAMES if name in limits_of(quota)]
    check_counted(quota, names)
    wanted = difference(masked(more.amounts(), names), {})
    check_room(quota, wanted)
    return wanted


def _pod(request: AdmissionRequest, raw: RawObject | None) -> Pod | None:
    if raw is None:
        return None
    metadata = {**(raw.get("metadata") or {}), "namespace": request.namespace}
    try:
        return convert(without_nulls({**raw, "metadata": metadata}), Pod)
    except DecodeError as error:
        raise MalformedReviewError(f"the object's pod: {error}") from None
