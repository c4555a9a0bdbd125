"""Who has to go, in which order, and where their replacements would land.

A plan is made when what is broken has changed, and now and then while somebody waits, since nodes fill
up and empty.  Those whose replacement finds a node go first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from berth.engine.execution.eviction_ceiling import Halt
from berth.engine.execution.eviction_set import PodToEvict, eviction_set
from berth.engine.execution.replacements import replacement_nodes
from berth.engine.execution.violations import Violation
from berth.eviction.finding import Finding
from berth.eviction.safety import Brake
from berth.eviction.settings import EvictionSettings
from berth.kube.api_resources import NODES
from berth.kube.objects import Node
from berth.kube.times import created_at
from berth.machines.cache import Cache
from berth.machines.contract import DELETED, Event

# More than these are not asked where they would land before it is their turn.
MOST_LANDINGS = 500
# A plan is made anew after so long though nothing changed.
MOST_AGE = 30.0
# A long plan is not made more often than this.
LONG, LEAST_AGE = 500, 5.0


@dataclass(frozen=True, slots=True)
class Planned:
    """Attributes:
    domain: The topology domain it runs in, empty if its node is in none.
    homeless: It was asked where the replacement would go, and there is no such node.
    """

    departure: PodToEvict
    node: str
    domain: str
    homeless: bool
    since: float

    @property
    def pod(self) -> str:
        return self.departure.pod


class Planning:
    """Attributes:
    order: Who has to go, first those who go first.
    stale: What is broken has changed.
    """

    def __init__(self, finding: Finding, cache: Cache, brake: Brake, settings: EvictionSettings) -> None:
        self._finding = finding
        self._cache = cache
        self._brake = brake
        self._key = settings.domain_key
        self.order: list[Planned] = []
        self.stale = False
        self._made = 0.0
        self._was_in: dict[str, str] = {}  # nodes without the label of their domain -> the domain

    def handle(self, event: Event) -> None:
        """A node that loses the label of its domain stays there: a mistake with labels may take that, too."""
        name, old = event.key[1], event.old
        self._finding.census.moved(name)
        if event.change == DELETED or self._key in (event.object.metadata.labels or {}):
            self._was_in.pop(name, None)
        elif domain := ((old.metadata.labels if old else None) or {}).get(self._key):
            self._was_in[name] = domain

    def due(self) -> float | None:
        """When to make the plan anew."""
        if self.stale:
            return self._made + LEAST_AGE if len(self.order) > LONG else 0.0
        return self._made + MOST_AGE if self.order else None

    def make(self, now: float) -> tuple[list[Halt], list[str]]:
        """Make the plan; the domains that are halted now, and those that no longer are."""
        self.stale, self._made = False, now
        ledger = self._finding.ledger
        going: list[tuple[PodToEvict, str, str, float]] = []
        broken = ledger.ripe()
        for departure in self._departures(broken) if broken else ():
            pod = self._finding.pod(departure.pod)
            if pod is not None:
                node = pod.spec.node_name or ""
                since = ledger.since(departure.violations, now)
                going.append((departure, node, self.domain_of(node), since))
        running = self._finding.census.running(self.domain_of) if going else {}
        news = self._brake.judge(Counter(domain for _, _, domain, _ in going), running, now)
        free = [entry[0] for entry in going if self._brake.stops(entry[2]) is None]
        lands = self.replacement_nodes(free[:MOST_LANDINGS])
        self.order = sorted(
            (
                Planned(departure, node, domain, lands.get(departure.pod, "") is None, since)
                for departure, node, domain, since in going
            ),
            key=lambda planned: (planned.homeless, planned.since),
        )
        return news

    def _departures(self, broken: Sequence[Violation]) -> list[PodToEvict]:
        staying = frozenset(self._finding.census.immovable)
        return eviction_set(self._finding.mirror.cluster, broken, started=self._started, staying=staying)

    def _started(self, name: str) -> float:
        pod = self._finding.pod(name)
        return created_at(pod.metadata) if pod is not None else 0.0

    def replacement_nodes(self, going: Sequence[PodToEvict]) -> dict[str, str | None]:
        return replacement_nodes(self._finding.mirror.cluster, going) if going else {}

    def prune(self) -> list[Planned]:
        """Leave out those who are no longer there; the rest, in order."""
        self.order = [planned for planned in self.order if self._finding.pod(planned.pod) is not None]
        return self.order

    def domain_of(self, node: str) -> str:
        found = self._cache.get(NODES, ("", node), Node)
        labels = (found.metadata.labels if found else None) or {}
        return labels.get(self._key) or self._was_in.get(node, "")


def nodes_of(order: Iterable[Planned], domain: str | None) -> list[str]:
    """The nodes from which pods would go, of one domain or of all."""
    return sorted({planned.node for planned in order if domain is None or planned.domain == domain})
