"""One rule asked by itself, about a pod in a small cluster."""

from dataclasses import dataclass

from berth.engine.execution.violations import placement_violations
from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.cluster import Cluster
from berth.engine.state.options import Options
from berth.kube.defaults import created, default_node
from tests.support.builders import NodeBuilder, PodBuilder


@dataclass(frozen=True)
class Judged:
    """What one rule says of a pod: reasons and causes by refused node, scores by feasible node."""

    refused: dict[str, tuple[str, ...]]
    causes: dict[str, tuple[str, ...]]
    raw: dict[str, int]
    scores: dict[str, int]


def cluster_of(*things: NodeBuilder | PodBuilder, options: Options | None = None) -> Cluster:
    """Nodes, and pods that run on them."""
    cluster = Cluster(options or Options())
    for thing in things:
        if isinstance(thing, NodeBuilder):
            cluster.add_node(default_node(thing.build()))
        else:
            cluster.add_pod(created(thing.build()))
    return cluster


def judged(
    rule: str, pod: PodBuilder, *things: NodeBuilder | PodBuilder, options: Options | None = None
) -> Judged:
    """One rule's verdict on a pod that is to be placed among these."""
    cluster = cluster_of(*things, options=options)
    found = evaluate(plan_for(cluster, cluster.class_of(created(pod.build()), pinned=True)))
    names = [name or "" for name in cluster.nodes.names]
    verdicts = {names[slot]: v for slot, said in found.verdicts.items() for v in said if v.rule == rule}
    scored = found.scores.get(rule)
    feasible = [names[slot] for slot in found.feasible.tolist()]
    return Judged(
        refused={name: verdict.reasons for name, verdict in verdicts.items()},
        causes={name: verdict.causes for name, verdict in verdicts.items()},
        raw=dict(zip(feasible, scored.raw.tolist(), strict=True)) if scored else {},
        scores=dict(zip(feasible, scored.normalized.tolist(), strict=True)) if scored else {},
    )


def violated(rule: str, pod: PodBuilder, *things: NodeBuilder | PodBuilder) -> list[RuleViolation]:
    """How a running pod breaks a rule where it runs."""
    cluster = cluster_of(*things, pod)
    built = pod.build()
    key = f"{built.metadata.namespace or 'default'}/{built.metadata.name}"
    return [found for found in placement_violations(cluster, [key]).get(key, ()) if found.rule == rule]
