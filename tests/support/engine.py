"""The engine under test, driven with the same plain clusters and changes as the reference."""

from typing import Any, cast

import numpy as np

from berth.engine.offline.cases import describe
from berth.engine.placement.evaluation import Evaluation, evaluate
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.rules import RULES
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.engine.state.options import DEFAULT_WEIGHTS, Options
from berth.kube.defaults import created, default_namespace, default_node
from berth.kube.objects import Node, Pod
from berth.kube.pods import is_finished
from berth.kube.scheduler_configuration.model import PluginArguments, ScoringStrategyType
from tests.reference import Args
from tests.support import changes
from tests.support.changes import Change
from tests.support.cluster import Cluster, key_of

EXTRA = frozenset(rule.name for rule in RULES if not rule.recorded)


def options_of(args: Args) -> Options:
    absent = EXTRA.difference(args.extra_plugins)
    weights = {name: weight for name, weight in DEFAULT_WEIGHTS.items() if name not in absent}
    return Options(
        args=PluginArguments(
            hard_pod_affinity_weight=args.hard_pod_affinity_weight,
            ignore_preferred_terms_of_existing_pods=args.ignore_preferred_terms_of_existing_pods,
            added_affinity=args.added_affinity,
            default_constraints=args.default_constraints,
            defaulting_type="System" if args.defaulting_type == "System" else "List",
            scoring_strategy=cast("ScoringStrategyType", args.fit_strategy),
            scoring_shape=args.fit_shape,
            scoring_resources=args.fit_resources,
            ignored_resources=args.ignored_resources,
            ignored_resource_groups=args.ignored_resource_groups,
            balanced_resources=args.balanced_resources,
        ),
        daemon_namespaces=frozenset(args.daemon_namespaces),
        version=args.version,
        exact_namespace_selectors=args.exact_namespace_selectors,
        weights=weights,
        disabled=absent,
        not_filtering=frozenset(args.not_filtering),
    )


def engine_of(cluster: Cluster) -> EngineCluster:
    engine = EngineCluster(options_of(cluster.args), expected_nodes=1)
    for namespace in cluster.namespaces:
        engine.set_namespace(default_namespace(namespace))
    for service in cluster.services:
        engine.set_owner(service)
    for controller in cluster.replication_controllers:
        engine.set_owner(controller)
    for replica_set in cluster.replica_sets:
        engine.set_owner(replica_set, "ReplicaSet")
    for stateful_set in cluster.stateful_sets:
        engine.set_owner(stateful_set, "StatefulSet")
    for node in cluster.nodes:
        engine.add_node(default_node(node))
    for pod in cluster.pods:
        if not is_finished(pod):
            engine.add_pod(created(pod, cluster.args.version))
    return engine


def follow(engine: EngineCluster, before: Cluster, change: Change) -> Cluster:
    """Apply a change to the engine the way a watcher would; returns the cluster afterwards."""
    after = changes.apply(before, change)
    match change:
        case changes.AddNode() | changes.RelabelNode() | changes.TaintNode() | changes.ResizeNode():
            _update_nodes(engine, before, after)
        case changes.RemoveNode(name):
            engine.remove_node(name)
        case changes.RelabelNamespace():
            for namespace in after.namespaces:
                engine.set_namespace(default_namespace(namespace))
        case _:
            _update_pods(engine, before, after)
    return after


def _update_nodes(engine: EngineCluster, before: Cluster, after: Cluster) -> None:
    known: dict[str | None, Node] = {n.metadata.name: n for n in before.nodes}
    for node in after.nodes:
        if known.get(node.metadata.name) != node:
            engine.add_node(default_node(node))


def _update_pods(engine: EngineCluster, before: Cluster, after: Cluster) -> None:
    old = {key_of(p): p for p in before.pods if not is_finished(p)}
    new = {key_of(p): p for p in after.pods if not is_finished(p)}
    for key in old.keys() - new.keys():
        engine.remove_pod(key)
    for key, pod in new.items():
        if old.get(key) != pod:
            engine.add_pod(created(pod, after.args.version))


def plan_of(engine: EngineCluster, pod: Pod) -> Plan:
    return plan_for(engine, engine.class_of(created(pod, engine.options.version), pinned=True))


def verdict_of(engine: EngineCluster, pod: Pod) -> dict[str, Any]:
    """Everything the engine says about a pod, in the form of the recorded decisions."""
    return {"validation": [], **describe(engine, evaluate(plan_of(engine, pod)))}


def chosen_by(engine: EngineCluster, pod: Pod) -> str | None:
    """The node the fast path takes."""
    try:
        slot = plan_of(engine, pod).choose()
    except SchedulingError:
        return None
    return None if slot is None else engine.nodes.names[slot]


def fast_totals(plan: Plan, verdict: Evaluation) -> list[int]:
    """The totals of the feasible nodes by the fast path; refused nodes must be refused there, too."""
    blocked = plan.blocked()
    feasible = set(np.flatnonzero(blocked == 0).tolist())
    assert feasible == set(verdict.feasible.tolist())
    totals: list[int] = plan.totals(blocked)[verdict.feasible].tolist()
    return totals
