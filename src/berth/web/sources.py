"""Where the page's cluster comes from: a dump, taken in once, or a live cluster, kept in step."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from berth.engine.offline.lookup import NotFoundError
from berth.engine.offline.snapshot import Origin, Snapshot, read
from berth.engine.state.options import Options
from berth.kube.api_resources import (
    BINDINGS,
    CLUSTERS,
    DRIVERS,
    EVENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    STORAGE,
    Resource,
    versions_of,
)
from berth.kube.manifests.kinds import view_of
from berth.kube.manifests.manifest import Manifest, Source
from berth.kube.objects import Key, Pod, RawObject, TypedObject, key_of
from berth.kube.ownership import controller_of, workload_of
from berth.kube.pods import is_finished
from berth.kube.well_known import DELETED
from berth.live import listing
from berth.live.client import Client
from berth.live.errors import ApiError, Forbidden, NotFound, Unreachable
from berth.live.informer import Informer
from berth.live.listing import Listing
from berth.machines.contract import Event
from berth.machines.rates import Backoff
from berth.web.changes import ChangeStream
from berth.web.events import EventLog, PageEvent
from berth.web.overview import NO_CHANGES, Board, node_row, pod_row

_FLEET = (CLUSTERS, *BINDINGS)
_BESIDE = (*listing.CONTEXT, *listing.ASKED_FOR, *DRIVERS, *listing.NAMED)
_COLLECT = 0.1  # seconds in which changes are gathered before pages hear of them
_ASK_AGAIN = 30.0  # seconds until a kind that could not be read is tried again
_CHECK = 2.0  # seconds between looks at whether a server that was away is back
_BACKOFF = Backoff(first=0.2, longest=3.0)  # short: a person is looking at the page
_NO_NODE = "There is no node {}."


class UntypedObject(TypedObject, frozen=True):
    """An object of a kind that the page shows without judging it."""

    spec: RawObject | None = None
    status: RawObject | None = None


class ClusterSource(ABC):
    """A cluster that the page can show.

    Attributes:
        version: Changes with everything that the answers may depend on.
        trouble: Why what is shown may be old; None if it is not.
    """

    live: ClassVar[bool]

    def __init__(self, options: Options, words: str, *, loading: bool) -> None:
        self.options = options
        self.words = words
        self.loading = loading
        self.board = Board()
        self.stream = ChangeStream()
        self.event_log = EventLog()
        self.version = 1
        self.trouble: str | None = None
        self._missing: dict[Resource, str] = {}  # why; empty if the server does not have the kind
        self._wanted = asyncio.Event()

    @property
    def missing(self) -> list[dict[str, str]]:
        """The kinds that cannot be read, and why."""
        return [{"resource": resource.name, "why": why} for resource, why in self._missing.items() if why]

    def want(self) -> None:
        """Note that a page is open: from then on the cluster is read."""
        self._wanted.set()

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The cluster for a question, which may change it as it likes.

        Raises:
            berth.engine.offline.snapshot.SnapshotError: the objects cannot be used.
        """

    @abstractmethod
    def fleet_objects(self) -> Iterator[tuple[str, RawObject]]:
        """Karmada's clusters and bindings with their kind."""

    @abstractmethod
    async def fleet_listing(self) -> Listing:
        """All that placing workloads onto clusters depends on.

        Raises:
            berth.live.listing.ListingError: it cannot be read.
            berth.kube.manifests.manifest.ManifestError: an object cannot be read.
        """

    @abstractmethod
    async def node(self, name: str) -> RawObject:
        """A node with every field it has.

        Raises:
            berth.engine.offline.lookup.NotFoundError: there is none of that name.
            berth.live.errors.ApiError: it cannot be read.
        """

    @abstractmethod
    async def events(self) -> list[RawObject]:
        """Every Event with every field it has.

        Raises:
            berth.live.errors.ApiError: they cannot be listed.
        """


class DumpSource(ClusterSource):
    """Manifests as they were taken in; nothing changes."""

    live = False

    def __init__(
        self, manifests: list[Manifest], options: Options, words: str, warnings: Sequence[str] = ()
    ) -> None:
        super().__init__(options, words, loading=False)
        self._manifests = manifests
        self._warnings = warnings
        snapshot = self.snapshot()
        for node in snapshot.nodes.values():
            self.board.put_node(node_row(node))
        for entry in (*snapshot.running, *snapshot.pending, *snapshot.ended):
            self.board.put_pod(pod_row(entry.pod, entry.owner))
        for manifest in manifests:
            if manifest.kind == EVENTS.kind:
                self.event_log.put(msgspec.convert(manifest.to_dict(), PageEvent))

    @property
    def shows_anything(self) -> bool:
        """Whether any part of the page shows an object of this kind."""
        some = itertools.chain(self.board.nodes, self.board.pods, self.event_log, self.fleet_objects())
        return next(some, None) is not None

    def snapshot(self) -> Snapshot:
        snapshot = read(self._manifests, self.options)
        snapshot.warnings += self._warnings
        return snapshot

    def fleet_objects(self) -> Iterator[tuple[str, RawObject]]:
        kinds = {resource.kind for resource in _FLEET}
        for manifest in self._manifests:
            if manifest.kind in kinds and "karmada" in manifest.api_version:
                yield manifest.kind, manifest.to_dict()

    async def fleet_listing(self) -> Listing:
        return Listing(self._manifests)

    async def node(self, name: str) -> RawObject:
        for manifest in self._manifests:
            if (manifest.kind, manifest.name) == (NODES.kind, name):
                return _shown(NODES, manifest.to_dict())
        raise NotFoundError(_NO_NODE.format(name))

    async def events(self) -> list[RawObject]:
        return [_shown(EVENTS, each.to_dict()) for each in self._manifests if each.kind == EVENTS.kind]


class LiveSource(ClusterSource):
    """A cluster behind an API server: one informer a kind, nothing is ever written.

    It is not read before a page is opened.

    Attributes:
        notes: Notes about the cluster that every answer carries.
        noting: Makes the notes that a command would print that reads the cluster.
    """

    live = True

    def __init__(
        self,
        client: Client,
        options: Options,
        *,
        notes: tuple[str, ...] = (),
        noting: Callable[[Snapshot, Options], None] | None = None,
    ) -> None:
        super().__init__(options, "in the cluster", loading=True)
        self.client = client
        self.notes = notes
        self.noting = noting
        self._informers: dict[Resource, Informer[Any]] = {}
        self._deployments: dict[Key, str] = {}
        self._troubles: dict[Resource, str] = {}
        self._beside = False  # whether something changed that has no row in the overview: a budget, a binding

    # --- staying in step ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Raises:
            berth.live.errors.ApiError: nodes or pods cannot be listed.
        """
        await self._wanted.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect())
            await self._begin(group, (*_BESIDE, *STORAGE))  # owners before their pods
            await self._begin(group, (*listing.REQUIRED, EVENTS, *_FLEET))
            for informer in list(self._informers.values()):
                await informer.synced.wait()
            self.loading = False
            self.stream.tell("reset", {})
            group.create_task(self._look_after(group))

    async def _begin(self, group: asyncio.TaskGroup, resources: Iterable[Resource]) -> None:
        readable = await asyncio.gather(*(self._why_not(resource) for resource in resources))
        begun = []
        for resource, why in zip(resources, readable, strict=True):
            if why is None:
                self._missing.pop(resource, None)
                begun.append(self._follow(group, resource))
            else:
                self._missing[resource] = why
        for informer in begun:
            await informer.synced.wait()

    async def _why_not(self, resource: Resource) -> str | None:
        """Why a kind cannot be read: nothing is wrong (None), the server has none (empty), or a sentence."""
        for candidate in versions_of(resource):
            try:
                await self.client.page(candidate, msgspec.Raw, limit=1)
            except NotFound:
                continue
            except Forbidden as error:
                if resource in listing.REQUIRED:
                    raise
                return str(error)
            except Unreachable:
                pass  # its informer tries until it succeeds
            return None
        return ""

    def _follow(self, group: asyncio.TaskGroup, resource: Resource) -> Informer[Any]:
        informer = Informer(
            self.client, resource, _view(resource), self._take, backoff=_BACKOFF, trouble=self._failed
        )
        self._informers[resource] = informer
        group.create_task(informer.run(), name=f"inform {resource.name}")
        return informer

    def _failed(self, resource: Resource, error: ApiError | None) -> None:
        """Note why a kind is not up to date; None if it is again."""
        if error is None:
            self._troubles.pop(resource, None)
        else:
            self._troubles[resource] = str(error)
        self._tell_trouble()

    def _tell_trouble(self) -> None:
        trouble = next(iter(self._troubles.values()), None)
        if trouble != self.trouble:
            self.trouble = trouble
            self.stream.tell("trouble", {"trouble": trouble})

    async def _look_after(self, group: asyncio.TaskGroup) -> None:
        """Try kinds again that could not be read, and notice a quiet server that is back."""
        calm, waited = 0, 0.0
        while True:
            await asyncio.sleep(_CHECK)
            waited += _CHECK
            calm = calm + 1 if self._troubles and await self._answers() else 0
            if calm * _CHECK > _BACKOFF.longest:  # by now every informer has tried again
                self._troubles.clear()
                self._tell_trouble()
            if self._missing and waited >= _ASK_AGAIN:
                waited = 0.0
                await self._begin(group, tuple(self._missing))

    async def _answers(self) -> bool:
        try:
            await self.client.request("GET", "/version")
        except ApiError:
            return False
        return True

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(_COLLECT)
            if self.loading:
                continue
            beside, self._beside = self._beside, False
            changes = self.board.changes()
            if changes is not None or beside:  # a page that shows answers to questions asks them again
                self.stream.tell("change", changes or NO_CHANGES)

    def _take(self, event: Event) -> None:
        gone = event.change == DELETED
        if event.resource == EVENTS:
            if not gone:
                told = self.event_log.put(event.object)
                if not self.loading:
                    self.stream.tell("happened", told)
            return
        self.version += 1
        if event.resource == NODES:
            name = event.key[1]
            self.board.drop_node(name) if gone else self.board.put_node(node_row(event.object))
        elif event.resource == PODS:
            if gone:
                self.board.drop_pod(event.key)
            else:
                self.board.put_pod(pod_row(event.object, workload_of(event.object, self._deployments)))
        else:
            self._beside = True
        if event.resource == REPLICA_SETS:
            owner = controller_of(event.object.metadata)
            if gone:
                self._deployments.pop(event.key, None)
            elif owner is not None:
                self._deployments[event.key] = f"{owner.kind}/{owner.name}"

    # --- questions ----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        found: list[Manifest] = []
        source = Source(self.client.url)
        whole = all(resource in self._informers for resource in STORAGE)
        for resource in (*listing.REQUIRED, *_BESIDE, *(STORAGE if whole else ())):
            informer = self._informers.get(resource)
            views = list(informer.objects.values()) if informer is not None else []
            if resource == PODS:
                views.sort(key=lambda pod: pod.metadata.creation_timestamp or "")
            found += [_manifest(resource, view, source) for view in views]
        origin = Origin(
            words=self.words, controlled=True, whole_storage=whole, whole_claims=self._has_whole_claims()
        )
        snapshot = read(found, self.options, origin=origin)
        snapshot.notes[:0] = [*self.notes, *self._left_out(), *(() if whole else (listing.WITHOUT_STORAGE,))]
        if self.noting is not None:
            self.noting(snapshot, self.options)
        return snapshot

    def _has_whole_claims(self) -> bool:
        if RESOURCE_CLAIMS in self._informers:
            return True
        pods = list(self._informers[PODS].objects.values())
        return not any(pod.spec.resource_claims for pod in pods if not pod.spec.node_name)

    def _left_out(self) -> Iterator[str]:
        """The notes of a command that lists the cluster, about kinds that cannot be listed."""
        for resource in (*listing.CONTEXT, *STORAGE, *DRIVERS):
            if resource in self._missing:
                yield listing.left_out(resource, self._missing[resource] or "there are none")

    def fleet_objects(self) -> Iterator[tuple[str, RawObject]]:
        for resource in _FLEET:
            informer = self._informers.get(resource)
            for view in list(informer.objects.values()) if informer is not None else ():
                yield resource.kind, msgspec.to_builtins(view)

    # Whole objects are seldom asked for and read each time: the views that are kept lack most fields.

    async def fleet_listing(self) -> Listing:
        return await listing.list_fleet(self.client)

    async def node(self, name: str) -> RawObject:
        if name not in self.board.nodes:  # so that the name cannot be a path to something else
            raise NotFoundError(_NO_NODE.format(name))
        try:
            found: RawObject = msgspec.json.decode(await self.client.get(NODES, name))
        except NotFound:
            raise NotFoundError(_NO_NODE.format(name)) from None
        return _shown(NODES, found)

    async def events(self) -> list[RawObject]:
        items = await self.client.list_all(EVENTS, dict[str, Any])
        return [_shown(EVENTS, item) for item in items]


def _shown(resource: Resource, item: RawObject) -> RawObject:
    """As kubectl prints it: with its kind, without who wrote which field."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item, "metadata": metadata}


def _manifest(resource: Resource, view: Any, source: Source) -> Manifest:  # noqa: ANN401 - a view of the kind
    namespace, name = key_of(view.metadata)
    # Only what is said of a pod that has ended is read from the original.
    raw = msgspec.to_builtins(view) if isinstance(view, Pod) and is_finished(view) else {}
    return Manifest(resource.kind, resource.api_version, namespace or None, name, source, view, raw)


def _view(resource: Resource) -> type[Any]:
    if resource == EVENTS:
        return PageEvent
    typed = None if resource in _FLEET else view_of(resource.api_version, resource.kind)
    return typed or UntypedObject
