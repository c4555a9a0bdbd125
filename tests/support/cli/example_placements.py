"""Where the pods of an example go, and where else they could have gone."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from berth.engine.offline.explanation import Explanation, explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import Simulation, simulate
from berth.engine.offline.snapshot import read
from berth.engine.state.options import Options
from berth.kube.manifests.manifest import load
from berth.kube.well_known import ZONE
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"


class ExamplePlacements:
    """The files placed together, as `berth simulate -f A -f B` does."""

    def __init__(self, *files: str, options: Options | None = None) -> None:
        self.files = files
        self._options = options

    def beside(self, *files: str) -> ExamplePlacements:
        """The same with more files."""
        return ExamplePlacements(*self.files, *files, options=self._options)

    def under(self, options: Options) -> ExamplePlacements:
        """The same with other options."""
        return ExamplePlacements(*self.files, options=options)

    def _placed(self) -> Simulation:
        return simulate(read(load([EXAMPLES / file for file in self.files]), self._options))

    @cached_property
    def simulation(self) -> Simulation:
        return self._placed()

    @property
    def nodes(self) -> dict[str, str]:
        """Pod -> node, for the pods that were placed."""
        return {placement.entry.name: placement.node for placement in self.simulation.placements}

    @property
    def left(self) -> set[str]:
        """The pods that were not."""
        return {unplaced.entry.name for unplaced in self.simulation.unplaced}

    def nodes_of(self, owner: str) -> list[str]:
        """Where the pods of a workload went, in the order in which they were placed."""
        return [placement.node for placement in self.simulation.placements if placement.entry.owner == owner]

    def zones_of(self, owner: str) -> Counter[str]:
        nodes = self.simulation.snapshot.nodes
        return Counter((nodes[name].metadata.labels or {})[ZONE] for name in self.nodes_of(owner))

    def explained(self, pod: str) -> Explanation:
        simulation = self._placed()  # explaining takes placements back
        return explain(simulation, find(simulation, pod, None))

    def choice(self, pod: str) -> set[str]:
        """The nodes that are feasible for a pod when its turn comes."""
        return {node.name for node in self.explained(pod).nodes if node.feasible}

    def best(self, pod: str) -> set[str]:
        """Those of them that no other beats."""
        totals = {node.name: node.total or 0 for node in self.explained(pod).nodes if node.feasible}
        return {name for name, total in totals.items() if total == max(totals.values())}

    def points(self, pod: str, rule: str) -> dict[str, int]:
        """What one rule gives each feasible node, from 0 to 100."""
        return {
            node.name: score.normalized
            for node in self.explained(pod).nodes
            for score in node.scores
            if score.rule == rule
        }

    def broken(self, pod: str) -> list[str]:
        """The rules that no longer hold where a pod runs."""
        return [rejection.rule for rejection in self.explained(pod).broken]
