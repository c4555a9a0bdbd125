"""A scripted world with nodes in zones, pods with execution-time rules, owners and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from berth.eviction import AffinityEviction, EvictionDecision, EvictionMetrics, EvictionSettings
from berth.kube.api_resources import BUDGETS, EVENTS, NAMESPACES, NODES, PODS, REPLICA_SETS
from berth.kube.objects import PodDisruptionBudget
from berth.kube.selectors import parse_label_selector
from berth.kube.well_known import ADDED, MODIFIED
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Event, Evict, Outcome, Patch
from tests.support.builders import EXECUTION, HOSTNAME, ZONE
from tests.support.scripts.script import Raw, Script


def needs_label(key: str, *values: str) -> Raw:
    """A node rule that has to hold during execution."""
    operator = "In" if values else "Exists"
    expression: Raw = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"nodeAffinity": {EXECUTION: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def _term(app: str, topology: str) -> list[Raw]:
    return [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology}]


def near(app: str, topology: str = HOSTNAME) -> Raw:
    return {"podAffinity": {EXECUTION: _term(app, topology)}}


def apart_from(app: str, topology: str = HOSTNAME) -> Raw:
    return {"podAntiAffinity": {EXECUTION: _term(app, topology)}}


class EvictionScript(Script):
    """A world with the eviction controller in it.

    Attributes:
        decisions: What the controller said it decided.
    """

    def __init__(self, settings: EvictionSettings | None = None) -> None:
        self.decisions: list[EvictionDecision] = []
        self.settings = settings or EvictionSettings()
        super().__init__(self._machine)
        self.refuse = self._budgets
        self.create(NAMESPACES, {"metadata": {"name": "kube-system"}})
        self.create(NAMESPACES, {"metadata": {"name": "default"}})

    def _machine(self, cache: Cache) -> AffinityEviction:
        return AffinityEviction(cache, self.settings, metrics=EvictionMetrics(), tell=self.decisions.append)

    @property
    def machine(self) -> AffinityEviction:
        machine: AffinityEviction = self.machines[0]
        return machine

    def restart(self) -> None:
        """The process ends without a word, and another one starts: it hears of everything there is."""
        self.cache = Cache()
        self.machines = [self._machine(self.cache)]
        for (resource, _, _), item in list(self.objects.items()):
            self._tell(Event(resource, ADDED, self.view(resource, item)))

    # --- what there is ------------------------------------------------------------------------------

    def labelled(self, name: str, zone: str = "a", **labels: str) -> None:
        self.node(name, labels={ZONE: zone, **labels})

    def relabel(self, node: str, **labels: str | None) -> None:
        self.change(NODES, node, {"metadata": {"labels": labels}})

    def pod(
        self,
        name: str,
        node: str | None,
        affinity: Raw | None = None,
        *,
        app: str = "web",
        owner: Raw | None = None,
        priority: int = 0,
        annotations: dict[str, str] | None = None,
        ready: bool = True,
        cpu: str = "100m",
    ) -> None:
        spec: Raw = {
            "priority": priority,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        }
        if node:
            spec["nodeName"] = node
        if affinity:
            spec["affinity"] = affinity
        metadata: Raw = {"name": name, "labels": {"app": app}, "annotations": annotations or {}}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        self.create(PODS, {"metadata": metadata, "spec": spec})
        if ready:
            self.set_ready(name)

    def replica_set(self, name: str, replicas: int) -> Raw:
        made = self.create(
            REPLICA_SETS,
            {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {}}},
        )
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    def budget(self, name: str, app: str, allowed: int) -> None:
        self.create(
            BUDGETS,
            {
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": allowed},
            },
        )

    def _budgets(self, action: Action) -> Outcome | None:
        """As the server does it: a disruption is taken from the budget, or refused."""
        if not isinstance(action, Evict):
            return None
        item = self.objects.get((PODS, action.namespace, action.name))
        labels = (item or {}).get("metadata", {}).get("labels", {})
        for raw in self.all(BUDGETS):
            budget = msgspec.convert(raw, PodDisruptionBudget)
            if not parse_label_selector(budget.spec.selector).matches(labels):
                continue
            allowed = (budget.status and budget.status.disruptions_allowed) or 0
            name = raw["metadata"]["name"]
            if not allowed:
                causes = [
                    {"reason": "DisruptionBudget", "message": f"The disruption budget {name} needs more"}
                ]
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                return Outcome(
                    at=self.now,
                    code=429,
                    reason="TooManyRequests",
                    message=message,
                    details={"causes": causes},
                )
            self.change(BUDGETS, name, {"status": {"disruptionsAllowed": allowed - 1}})
        return None

    @contextmanager
    def answers_lost(self, code: int) -> Iterator[None]:
        """Evictions happen, and nobody is told; no request is refused afterwards."""
        lost = Outcome(at=self.now, code=code, message="nobody knows")

        def lose(action: Action) -> Outcome | None:
            if not isinstance(action, Evict):
                return None
            self.delete(PODS, action.name)
            return lost

        self.refuse = lose
        yield
        self.refuse = lambda _: None

    def vanish(self, *names: str) -> None:
        """Pods that terminate are gone."""
        for name in names:
            self.delete(PODS, name, grace=0)

    def replace(self, old: str, new: str, node: str, **pod: Any) -> None:
        """A pod that terminates is gone, and its owner has made another one that is Ready."""
        self.vanish(old)
        self.pod(new, node, **pod)

    def swap(self, name: str, node: str, affinity: Raw | None = None, **pod: Any) -> None:
        """While the watch was cut, a pod went and another one of its name came: it shows as one change."""
        del self.objects[PODS, "default", name]
        kept, self.undelivered = self.undelivered, []
        self.held.add(PODS)
        self.pod(name, node, affinity, **pod)
        self.held.discard(PODS)
        self.undelivered = kept
        self._tell(Event(PODS, MODIFIED, self.view(PODS, self.get(PODS, name))))

    # --- what was done ------------------------------------------------------------------------------

    def attempts(self) -> list[str]:
        """The pods for which eviction was asked, in order."""
        return [action.name for action in self.done if isinstance(action, Evict)]

    def going(self) -> set[str]:
        """The pods that are gone or on their way."""
        return {
            item["metadata"]["name"] for item in self.all(PODS) if item["metadata"].get("deletionTimestamp")
        }

    def events(self, reason: str) -> list[Raw]:
        return [
            action.body
            for action in self.done
            if isinstance(action, Create) and action.resource == EVENTS and action.body["reason"] == reason
        ]

    def condition(self, name: str) -> tuple[str, str]:
        """Status and reason of a pod's DisruptionTarget condition."""
        conditions = self.get(PODS, name).get("status", {}).get("conditions", [])
        found: Raw = next((c for c in conditions if c["type"] == "DisruptionTarget"), {})
        return found.get("status", ""), found.get("reason", "")

    def metric(self, name: str, **labels: str) -> float:
        return self.machine.metrics.registry.get_sample_value(name, labels) or 0.0

    def said(self, what: str) -> list[EvictionDecision]:
        return [decision for decision in self.decisions if decision.what == what]

    def writes(self) -> list[Action]:
        return [action for action in self.done if isinstance(action, Create | Patch | Evict)]

    def events_only(self) -> list[Action]:
        return [action for action in self.writes() if action.resource == EVENTS]

    def due_later(self) -> float | None:
        """When the controller wants to look again though nothing happens."""
        return self.machine.due()


def interfere_once(world: EvictionScript, step: type[Action], change: Callable[[], None]) -> None:
    """Let time stand still until a request of a kind is made for a pod, and change something just before."""
    before, done = world.refuse, False

    def refuse(action: Action) -> Outcome | None:
        nonlocal done
        if isinstance(action, step) and action.resource != EVENTS and not done:
            done = True
            change()
        return before(action)

    world.refuse = refuse
    world.settle()
    assert done


RULE = needs_label("userB", "allow")


def user_b(settings: EvictionSettings | None = None) -> EvictionScript:
    """Two nodes for user B, one pod of theirs and one of nobody."""
    made = EvictionScript(settings)
    made.labelled("n1", userB="allow")
    made.labelled("n2", userB="allow")
    made.pod("b", "n1", RULE)
    made.pod("other", "n1")
    made.settle()
    return made
