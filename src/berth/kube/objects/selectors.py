"""Label and node selectors."""

from __future__ import annotations

from berth.kube.objects.base import Labels, Struct


class LabelSelectorRequirement(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Struct, frozen=True):
    match_labels: Labels | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct, frozen=True):
    node_selector_terms: list[NodeSelectorTerm | None] | None = None
