"""What the rules answer, and the form in which answers were recorded."""

from dataclasses import dataclass, field
from typing import Any

SUCCESS, SKIP, ERROR = "Success", "Skip", "Error"
UNSCHEDULABLE, UNRESOLVABLE = "Unschedulable", "UnschedulableAndUnresolvable"


@dataclass(frozen=True)
class Status:
    code: str
    reasons: tuple[str, ...] = ()
    node_names: frozenset[str] | None = None  # the only nodes a PreFilter step leaves, None: all

    def recorded(self) -> dict[str, Any]:
        form: dict[str, Any] = {"code": self.code, "reasons": sorted(self.reasons)}
        if self.node_names is not None:
            form["nodeNames"] = sorted(self.node_names)
        return form


@dataclass(frozen=True)
class Score:
    raw: int
    normalized: int


Rejections = dict[str, Status]  # by node name
Scores = dict[str, Score]  # by node name


@dataclass
class Result:
    """Everything known about one scheduling attempt; nodes keep the order of the world."""

    validation: list[dict[str, str]] = field(default_factory=list)
    prefilter: dict[str, Status] = field(default_factory=dict)
    filter: dict[str, dict[str, Status]] = field(default_factory=dict)
    feasible: list[str] = field(default_factory=list)
    prescore: dict[str, Status] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    weighted_total: dict[str, int] = field(default_factory=dict)
    error: str | None = None

    @property
    def max_total(self) -> int | None:
        return max(self.weighted_total.values(), default=None)

    @property
    def max_nodes(self) -> list[str]:
        return [node for node in self.feasible if self.weighted_total.get(node) == self.max_total]

    @property
    def chosen(self) -> str | None:
        """The first of the best nodes; upstream draws lots among them."""
        if self.error is not None or not self.feasible:
            return None
        return self.max_nodes[0]

    def recorded(self) -> dict[str, Any]:
        if self.validation:
            return {"validation": self.validation}
        form: dict[str, Any] = {
            "validation": [],
            "prefilter": {rule: status.recorded() for rule, status in self.prefilter.items()},
            "filter": {
                node: {rule: status.recorded() for rule, status in rejections.items()}
                for node, rejections in self.filter.items()
            },
            "feasible": self.feasible,
            "prescore": {rule: status.recorded() for rule, status in self.prescore.items()},
            "scores": {
                rule: {node: {"raw": s.raw, "normalized": s.normalized} for node, s in scores.items()}
                for rule, scores in self.scores.items()
            },
            "weighted_total": self.weighted_total,
        }
        if self.error is not None:
            form["error"] = self.error
        return form

    def recorded_step(self, pod: str) -> dict[str, Any]:
        return {
            "pod": pod,
            "feasible": self.feasible,
            "max_total": self.max_total,
            "max_nodes": self.max_nodes,
            "chosen": self.chosen,
        }
