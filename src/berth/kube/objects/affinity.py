"""Selectors, and what a pod says with them about where it goes: affinity, spreading, tolerations; taints."""

from __future__ import annotations

from berth.kube.objects.base import Int32, Int64, Labels, Struct
from berth.kube.well_known import REQUIRED_DURING_EXECUTION, REQUIRED_DURING_SCHEDULING


class LabelSelectorRequirement(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Struct, frozen=True):
    match_labels: Labels | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(LabelSelectorRequirement, frozen=True):
    """A requirement on a node's labels or fields, which may also compare numbers (Gt, Lt)."""


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct, frozen=True):
    node_selector_terms: list[NodeSelectorTerm | None] | None = None


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: Int32 | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Struct, frozen=True):
    required_during_scheduling_required_during_execution: NodeSelector | None = None
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None

    @property
    def required(self) -> tuple[tuple[str, NodeSelector | None], ...]:
        """What is required, by the names of the fields: as long as the pod runs, and when it is placed."""
        return (
            (REQUIRED_DURING_EXECUTION, self.required_during_scheduling_required_during_execution),
            (REQUIRED_DURING_SCHEDULING, self.required_during_scheduling_ignored_during_execution),
        )


class PodAffinityTerm(Struct, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: Int32 | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Struct, frozen=True):
    """Also the shape of podAntiAffinity, which has the same three lists."""

    required_during_scheduling_required_during_execution: list[PodAffinityTerm] | None = None
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None

    @property
    def required(self) -> tuple[tuple[str, list[PodAffinityTerm] | None], ...]:
        """See `NodeAffinity`."""
        return (
            (REQUIRED_DURING_EXECUTION, self.required_during_scheduling_required_during_execution),
            (REQUIRED_DURING_SCHEDULING, self.required_during_scheduling_ignored_during_execution),
        )


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: Int32 | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None


class Taint(Struct, frozen=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: str | None = None
