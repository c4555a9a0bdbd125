"""The node selectors that must hold while pods run, asked about pods that run.

A selector is judged by the labels that the node has now.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from berth.engine.rules.node_affinity.matching import AFFINITY, match_terms, why_unmet
from berth.engine.rules.verdicts import NODE, Cause, RuleViolation
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray
from berth.engine.state.pod_class import PodClass, RequiredNodes

# So few pods are faster asked about one by one.
_FEW = 8


def violations(rule: str, cluster: Cluster, pod_class: PodClass, pods: IndexArray) -> Iterator[RuleViolation]:
    """The selectors that do not hold for these pods, all of one class; they are found by `rule`."""
    slots: IndexArray = cluster.pods.node[pods].astype(np.intp)
    for required in pod_class.required_nodes:
        if not required.execution:
            continue
        broken = _broken(cluster, required, slots)
        for pod, slot in zip(pods[broken].tolist(), slots[broken].tolist(), strict=True):
            unmet = {"unmet": why_unmet(required.selector, cluster.nodes.labels[slot] or {})}
            cause = Cause(AFFINITY, unmet, required.path, execution=True, worded="{unmet}")
            yield RuleViolation.of_pod(rule, cause, cluster, pod, NODE)


def _broken(cluster: Cluster, required: RequiredNodes, slots: IndexArray) -> BoolArray:
    nodes = cluster.nodes
    if len(slots) > _FEW:
        return ~match_terms(nodes, required.selector, slots)
    holds = [
        required.selector.matches(nodes.labels[slot] or {}, nodes.names[slot] or "")
        for slot in slots.tolist()
    ]
    return ~np.array(holds, dtype=np.bool_)
