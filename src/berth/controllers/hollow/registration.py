"""Registers hollow nodes, and says that they are ready whenever somebody claims otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.controllers.hollow import is_hollow
from berth.controllers.hollow.manifests import ready_conditions, registered
from berth.kube.api_resources import NODES
from berth.kube.objects import Key, Node, RawObject
from berth.kube.pods import condition
from berth.kube.well_known import DELETED, STRATEGIC_PATCH
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Event, Outcome, Patch
from berth.machines.controller import Controller


class Registration(Controller):
    """Creates the nodes it was told of, once; one that is deleted later stays deleted.

    Attributes:
        waiting: Names still to be registered.
    """

    name = "hollow-registration"
    watches = (NODES,)

    def __init__(self, cache: Cache, wanted: Iterable[RawObject] = ()) -> None:
        super().__init__(cache)
        self._manifests = {manifest["metadata"]["name"]: manifest for manifest in wanted}
        self.waiting = dict.fromkeys(self._manifests)
        self._next_index = 1
        for name in self.waiting:
            self.queue.add(("", name))

    def handle(self, event: Event) -> None:
        self._next_index = max(self._next_index, _index(event.object) + 1)
        if event.change != DELETED:
            self.waiting.pop(event.key[1], None)
            self.queue.add(event.key)

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        node = self.cache.get(NODES, key, Node)
        if node is None:
            if key[1] in self.waiting:
                body = registered(self._manifests[key[1]], self._next_index, now)
                self._next_index += 1
                yield Create(resource=NODES, key=key, body=body, why="registered")
        elif is_hollow(node) and not _is_ready(node):
            yield Patch(
                resource=NODES,
                key=key,
                name=key[1],
                body={"status": {"conditions": ready_conditions(now)}},
                subresource="status",
                form=STRATEGIC_PATCH,
                why="the node is up",
            )

    def failed(self, action: Action, outcome: Outcome) -> None:
        if isinstance(action, Create) and outcome.exists:
            self.waiting.pop(action.key[1], None)


def _index(node: Node) -> int:
    """The number its addresses were made from, -1 if they were not."""
    parts = ((node.spec.pod_cidr if node.spec else None) or "").split(".")
    return int(parts[1]) << 8 | int(parts[2]) if len(parts) == 4 and parts[0] == "10" else -1


def _is_ready(node: Node) -> bool:
    ready = condition(node.status.conditions if node.status else None, "Ready")
    return ready is not None and ready.status == "True"
