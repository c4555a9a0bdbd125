"""The scenario of `berth up --demo`: the demonstration's workloads, a budget, and a pod too many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from importlib.resources import as_file, files

from berth.kube.api_resources import (
    BUDGETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
    Resource,
)
from berth.kube.manifests.manifest import Manifest, load
from berth.kube.objects import LiveWorkload, RawObject
from berth.live.client import Client
from berth.live.errors import AlreadyExists

_WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS)
_FIRST = (PRIORITY_CLASSES, *_WORKLOADS, BUDGETS)
_PATIENCE = 20.0  # seconds for the workloads to run before the last pod comes


def demo_nodes() -> list[RawObject]:
    """Six nodes in three zones, some with an SSD, one reserved."""
    return [manifest.to_dict() for manifest in _manifests("demo") if manifest.kind == NODES.kind]


async def apply_demo(client: Client) -> None:
    """Create the workloads that are not there yet, and when they run the pod that no longer fits."""
    scenario = _manifests("up_scenario")
    await _create(client, [*_manifests("demo"), *scenario], _FIRST)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while not await _all_run(client):  # noqa: ASYNC110 - a handful of lists
                await asyncio.sleep(0.1)
    await _create(client, scenario, (PODS,))


async def _create(client: Client, manifests: Iterable[Manifest], resources: Iterable[Resource]) -> None:
    of_kind = {each.kind: each for each in resources}
    for manifest in manifests:
        if (resource := of_kind.get(manifest.kind)) is not None:
            namespace = (manifest.namespace or "default") if resource.namespaced else ""
            with contextlib.suppress(AlreadyExists):
                await client.create(resource, manifest.to_dict(), namespace)


async def _all_run(client: Client) -> bool:
    found = [item for resource in _WORKLOADS for item in await client.list_all(resource, LiveWorkload)]
    return all((item.status.available_replicas or 0) >= (item.spec.replicas or 0) for item in found)


def _manifests(folder: str) -> list[Manifest]:
    with as_file(files("berth.cli").joinpath(folder)) as path:
        return load((str(path),))
