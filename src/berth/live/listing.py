"""What a cluster holds at the moment, listed from its API server as manifests. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from berth.kube.api_resources import (
    BINDINGS,
    BUDGETS,
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    CLUSTERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DRIVERS,
    JOBS,
    LABELLED_POD_GROUPS,
    NAMESPACES,
    NODES,
    OWNERS,
    POD_GROUPS,
    PODS,
    POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_BINDINGS,
    RESOURCE_CLAIMS,
    STORAGE,
    Resource,
    versions_of,
)
from berth.kube.karmada import Binding
from berth.kube.manifests.manifest import Manifest, Progress, listed
from berth.kube.objects import Pod
from berth.kube.pods import group_of
from berth.kube.versions import NEWEST, ServerVersion, version_of_server
from berth.live.client import PAGE, Client
from berth.live.discovery import ask_version, find
from berth.live.errors import (
    ApiError,
    Expired,
    Forbidden,
    NotFound,
    Unauthorized,
    Unreachable,
)

ListedObjects = dict[Resource, list[msgspec.Raw] | None]  # None for what has to be left out

REQUIRED = (NODES, PODS)
CONTEXT = (NAMESPACES, *OWNERS, PRIORITY_CLASSES)
ASKED_FOR = (DEPLOYMENTS, DAEMON_SETS, JOBS, CRON_JOBS, BUDGETS)  # listed only for callers that name them
NAMED = (POD_GROUPS, LABELLED_POD_GROUPS, RESOURCE_CLAIMS)  # needed only if pods name one
WITHOUT_STORAGE = "without claims, volumes and storage classes, volumes are not looked at"
_ASKED_FOR = {resource.kind: resource for resource in ASKED_FOR}
_FINISH = 2.0  # seconds for the other requests to end when one has failed
_PAUSES = 5  # after which a server that is busy is asked again


class ListingError(Exception):
    """The cluster cannot be read; the message is a sentence for the user."""


@dataclass(slots=True)
class Listing:
    """What was listed.

    Attributes:
        notes: Which resources are left out, and why.
        whole_storage: Whether all claims, volumes and storage classes are there.
        whole_claims: Whether all ResourceClaims are there, if any pod has to wait for one.
        server: As which version of Kubernetes the cluster is to be read.
    """

    manifests: list[Manifest]
    notes: list[str] = field(default_factory=list)
    whole_storage: bool = True
    whole_claims: bool = True
    server: ServerVersion = field(default_factory=lambda: ServerVersion(NEWEST))


async def list_cluster(
    client: Client, kinds: Iterable[str] = (), progress: Progress | None = None
) -> Listing:
    """Everything that matters to scheduling, and the workloads or budgets of `kinds`; the oldest pods first.

    With PodGroup among the kinds, also the groups and claims of pods that have a node.

    Raises:
        ListingError: pods or nodes cannot be listed, or the server does not answer.
        berth.kube.manifests.manifest.ManifestError: an object cannot be read.
    """
    kinds = list(dict.fromkeys(kinds))
    asked = [_ASKED_FOR[kind] for kind in kinds if kind in _ASKED_FOR]
    resources = (*REQUIRED, *CONTEXT, *STORAGE, *DRIVERS, *asked)
    lister = Lister(client, progress)
    found = await lister.all(resources)
    whole = all(found[resource] is not None for resource in STORAGE)
    if not whole:
        # Claims without their volumes, or the other way round, would look like mistakes of the pods.
        found.update(dict.fromkeys(STORAGE, None))
        lister.notes.append(WITHOUT_STORAGE)
    manifests = _manifests(found, client.url)
    more = await lister.all(_named_resources(manifests, every=POD_GROUPS.kind in kinds))
    manifests += _manifests(more, client.url)
    whole_claims = more.get(RESOURCE_CLAIMS, []) is not None
    return Listing(manifests, lister.notes, whole, whole_claims, await _version(client))


async def _version(client: Client) -> ServerVersion:
    try:
        return await ask_version(client)
    except ApiError as error:
        return version_of_server("", str(error))


def _named_resources(manifests: Iterable[Manifest], *, every: bool) -> list[Resource]:
    """The kinds that pods name: their groups, their claims. Most servers have none of them.

    With `every`, also the groups and claims of pods that have a node already.
    """
    views = [manifest.object for manifest in manifests]
    pods = [view for view in views if isinstance(view, Pod) and (every or not view.spec.node_name)]
    named = {key[0] for key in map(group_of, pods) if key is not None}
    if any(pod.spec.resource_claims for pod in pods):
        named.add(RESOURCE_CLAIMS)
    return [resource for resource in NAMED if resource in named]


def _manifests(found: ListedObjects, url: str) -> list[Manifest]:
    manifests: list[Manifest] = []
    for resource, items in found.items():
        views = listed(items or (), resource.kind, resource.api_version, url)
        manifests += sorted(views, key=_created) if resource == PODS else views
    return manifests


def _created(manifest: Manifest) -> str:
    """The sort key of pods: the oldest first, as in the scheduler's queue."""
    view = manifest.object
    return (view.metadata.creation_timestamp or "") if view is not None else ""


class Lister:
    """Lists resources, those in `required` or not at all."""

    def __init__(
        self, client: Client, progress: Progress | None, required: Iterable[Resource] = REQUIRED
    ) -> None:
        self._required = frozenset(required)
        self._client = client
        self._progress = progress
        self._counts: dict[Resource, tuple[int, int]] = {}
        self.notes: list[str] = []

    async def all(self, resources: Iterable[Resource]) -> ListedObjects:
        """What there is of each resource; None for those that have to be left out.

        Raises:
            ListingError: a required one cannot be listed, or the server does not answer.
        """
        tasks = {resource: asyncio.create_task(self.items(resource)) for resource in resources}
        if not tasks:
            return {}
        try:
            _, pending = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
            if pending:
                # One failed; the others get a moment to end: cutting requests off breaks connections.
                await asyncio.wait(pending, timeout=_FINISH)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        for task in tasks.values():
            error = None if task.cancelled() else task.exception()
            if isinstance(error, ApiError):
                raise ListingError(str(error))
            if error is not None:
                raise error
        return {resource: task.result() for resource, task in tasks.items()}

    async def items(self, resource: Resource) -> list[msgspec.Raw] | None:
        """All objects of a resource; None if it cannot be listed and may be left out."""
        try:
            return await self._best(resource)
        except Unreachable as error:
            raise Unreachable(f"{self._client.url} cannot be reached: {error}") from error
        except (Forbidden, NotFound) as error:
            if resource in self._required:
                raise _refused(self._client, resource, error) from error
            why = "there are none" if isinstance(error, NotFound) else str(error)
            self.notes.append(left_out(resource, why))
            return None
        except Unauthorized as error:
            message = f"{self._client.url} does not accept these credentials: {error}"
            raise ApiError(error.code, error.reason, message) from error
        except ApiError as error:
            raise _refused(self._client, resource, error) from error

    async def _best(self, resource: Resource) -> list[msgspec.Raw]:
        """All of a resource, in the best version that the server has."""
        *better, last = versions_of(resource)
        for candidate in better:
            try:
                return await self._all(candidate)
            except NotFound:
                pass
        return await self._all(last)

    async def _all(self, resource: Resource) -> list[msgspec.Raw]:
        try:
            return await self._listed(resource, PAGE)
        except Expired:  # the continue token is too old, so all in one request
            return await self._listed(resource, 0)

    async def _listed(self, resource: Resource, limit: int) -> list[msgspec.Raw]:
        found: list[msgspec.Raw] = []
        async for page in self._client.pages(resource, msgspec.Raw, limit=limit, pauses=_PAUSES):
            found += page.items
            self._count(resource, len(found), page.remaining if page.continue_token else 0)
        return found

    def _count(self, resource: Resource, found: int, remaining: int) -> None:
        self._counts[resource] = (found, remaining)
        if self._progress is not None:
            done = sum(count for count, _ in self._counts.values())
            self._progress(done, done + sum(rest for _, rest in self._counts.values()))


def left_out(resource: Resource, why: str) -> str:
    """The note about a kind that has to be done without."""
    return f"{resource.name} are left out, since the server does not list them: {why}"


def _refused(client: Client, resource: Resource, error: ApiError) -> ApiError:
    return ApiError(error.code, error.reason, f"{client.url}: {resource.name} cannot be listed: {error}")


# --- what Karmada's API server holds, as far as placing workloads goes ----------------------------

_OF_FLEETS = (CLUSTERS, RESOURCE_BINDINGS)  # required
_OTHERS = (CLUSTER_BINDINGS, POLICIES, CLUSTER_POLICIES, NAMESPACES)


async def list_fleet(client: Client, progress: Progress | None = None) -> Listing:
    """Clusters, bindings, policies and namespaces, and the workloads that bindings refer to.

    Raises:
        ListingError: clusters or bindings cannot be listed, or the server does not answer.
        berth.kube.manifests.manifest.ManifestError: an object cannot be read.
    """
    lister = Lister(client, progress, _OF_FLEETS)
    found = await lister.all((*_OF_FLEETS, *_OTHERS))
    kinds = {_kind(item) for resource in BINDINGS for item in found[resource] or ()}
    found |= await lister.all(await _served(client, kinds, lister.notes))
    return Listing(_manifests(found, client.url), lister.notes)


def _kind(item: msgspec.Raw) -> tuple[str, str]:
    try:
        reference = msgspec.json.decode(item, type=Binding).spec.resource
    except msgspec.MsgspecError:
        return "", ""  # decoding the binding itself will say what is wrong
    return reference.api_version or "", reference.kind or ""


async def _served(client: Client, kinds: set[tuple[str, str]], notes: list[str]) -> list[Resource]:
    known = {(resource.api_version, resource.kind) for resource in (*_OF_FLEETS, *_OTHERS)}
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
