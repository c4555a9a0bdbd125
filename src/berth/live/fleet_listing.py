"""What Karmada's API server holds at the moment, as far as placing workloads goes. Nothing is written."""

from __future__ import annotations

import msgspec

from berth.kube.api_resources import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    CLUSTERS,
    NAMESPACES,
    POLICIES,
    RESOURCE_BINDINGS,
    Resource,
)
from berth.kube.karmada import Binding
from berth.kube.manifests.manifest import Manifest, listed
from berth.live.client import Client
from berth.live.discovery import find
from berth.live.errors import ApiError
from berth.live.listing import Lister, Listing, ListingError, Progress

REQUIRED = (CLUSTERS, RESOURCE_BINDINGS)
_OTHERS = (CLUSTER_BINDINGS, POLICIES, CLUSTER_POLICIES, NAMESPACES)


async def list_fleet(client: Client, progress: Progress | None = None) -> Listing:
    """Clusters, bindings, policies and namespaces, and the workloads that bindings refer to.

    Raises:
        ListingError: clusters or bindings cannot be listed, or the server does not answer.
        berth.kube.manifests.manifest.ManifestError: an object cannot be read.
    """
    lister = Lister(client, progress, REQUIRED)
    found = await lister.all((*REQUIRED, *_OTHERS))
    kinds = {_kind(item) for resource in BINDINGS for item in found[resource] or ()}
    found |= await lister.all(await _served(client, kinds, lister.notes))
    manifests: list[Manifest] = []
    for resource, items in found.items():
        manifests += listed(items or (), resource.kind, resource.api_version, client.url)
    return Listing(manifests, lister.notes)


def _kind(item: msgspec.Raw) -> tuple[str, str]:
    try:
        reference = msgspec.json.decode(item, type=Binding).spec.resource
    except msgspec.MsgspecError:
        return "", ""  # reading the binding itself will say what is wrong
    return reference.api_version or "", reference.kind or ""


async def _served(client: Client, kinds: set[tuple[str, str]], notes: list[str]) -> list[Resource]:
    known = {(resource.api_version, resource.kind) for resource in (*REQUIRED, *_OTHERS)}
    found = []
    for api_version, kind in sorted(kinds - known - {("", "")}):
        try:
            resource = await find(client, api_version, kind)
        except ApiError as error:
            raise ListingError(
                f"{client.url}: {kind} of {api_version} cannot be looked up: {error}"
            ) from None
        if resource is None:
            notes.append(f"{kind} of {api_version} is not served, so their labels are those of the bindings")
        else:
            found.append(resource)
    return found
