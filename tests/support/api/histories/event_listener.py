"""A consumer that believes what it is told and can tell whether it was told well; an informer that counts."""

from __future__ import annotations

from collections import defaultdict

from berth.kube.objects import PartialObjectMetadata
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.live.informer import Informer
from berth.machines.contract import Event


class CountingInformer(Informer[PartialObjectMetadata]):
    """Knows how often it has listed everything."""

    relists = 0

    async def _list(self) -> None:
        await super()._list()
        self.relists += 1


class Listener:
    """Believes every event it is told, and checks that each fits the one before.

    Attributes:
        told: Every event as (change, name, uid).
        world: What the objects must be by what was told: uid and version by name.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.world: dict[str, tuple[str, str]] = {}

    def __call__(self, event: Event) -> None:
        name, metadata = event.key[1], event.object.metadata
        self.told.append((event.change, name, metadata.uid))
        known = self.world.get(name)
        if event.change == ADDED:
            assert known is None, f"{name} was there already"
            assert event.old is None
        else:
            assert known is not None, f"{name} was not there"
            assert known == (event.old.metadata.uid, event.old.metadata.resource_version)
            assert known[0] == metadata.uid, f"{name} is another one"
        if event.change == DELETED:
            del self.world[name]
            return
        if known is not None:
            assert int(known[1]) < int(metadata.resource_version), f"{name} went back"
        self.world[name] = (metadata.uid, metadata.resource_version)

    def check(self) -> None:
        """Every uid came once, then changed, then went once, if at all."""
        stories: dict[str, list[str]] = defaultdict(list)
        for change, _, uid in self.told:
            stories[uid].append(change)
        for story in stories.values():
            assert story[0] == ADDED
            assert set(story[1:-1]) <= {MODIFIED}
            assert story[-1] in (ADDED, MODIFIED, DELETED)
            assert story.count(ADDED) == 1


class Heard:
    """What a consumer was told, and what it would believe the world to be."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.world: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        name, version = event.key[1], event.object.metadata.resource_version or ""
        self.events.append((event.change, name, version))
        if event.change == "DELETED":
            del self.world[name]
        else:
            assert (event.change == "ADDED") == (name not in self.world)
            self.world[name] = version
