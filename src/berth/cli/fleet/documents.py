"""The stable objects behind `berth fleet … -o json`; docs/output.md describes them."""

from __future__ import annotations

from collections.abc import Iterable

from berth.cli.output.documents import Document, document_of
from berth.fleet.offline.explanation import ClusterExplanation, FleetExplanation
from berth.fleet.offline.relaxations import FleetRelaxation
from berth.fleet.offline.simulation import PLACED, STAYS, FleetSimulation, FleetWorkload
from berth.kube.karmada import TargetCluster


def simulation_document(simulation: FleetSimulation, shown: Iterable[FleetWorkload]) -> Document:
    states = [workload.state for workload in simulation.workloads]
    content: Document = {
        "summary": {
            "clusters": simulation.fleet.clusters.number,
            "workloads": len(states),
            "placed": states.count(PLACED),
            "stayed": states.count(STAYS),
            "unplaced": len(simulation.unplaced),
        },
        "workloads": [_workload(workload) for workload in shown],
    }
    return document_of("FleetSimulation", content, simulation.notes, simulation.warnings)


def _workload(workload: FleetWorkload) -> Document:
    decision = workload.decision
    error = decision.error if decision is not None else None
    resource = workload.binding.spec.resource
    return {
        "namespace": workload.key[0] or None,
        "binding": workload.key[1],
        "resource": {"apiVersion": resource.api_version, "kind": resource.kind, "name": resource.name},
        "policy": workload.policy,
        "priority": workload.priority,
        "state": workload.state,
        "replicas": workload.binding.spec.replicas,
        "clusters": _targets(workload.targets),
        "affinityName": (decision.decisive.affinity_name or None) if decision is not None else None,
        "reason": error.reason if error is not None else None,
        "message": error.message if error is not None else None,
    }


def _targets(targets: Iterable[TargetCluster]) -> list[Document]:
    return [{"name": target.name, "replicas": target.replicas} for target in targets]


def explanation_document(
    explanation: FleetExplanation, notes: Iterable[str], warnings: Iterable[str] = ()
) -> Document:
    workload = explanation.workload
    decision = workload.decision
    content: Document = {
        **{name: _workload(workload)[name] for name in ("namespace", "binding", "resource", "policy")},
        "state": explanation.state,
        "reason": explanation.reason,
        "message": explanation.message,
        "current": _targets(workload.binding.spec.clusters or ()),
        "decided": _targets(decision.targets or ()) if decision is not None else [],
        "attempts": [{"affinityName": name or None, "message": text} for name, text in explanation.attempts],
        "broken": list(explanation.broken),
        "clusters": [_cluster(cluster) for cluster in explanation.clusters],
        "relaxations": [_relaxation(relaxation) for relaxation in explanation.relaxations],
    }
    return document_of("FleetExplanation", content, notes, warnings)


def _cluster(cluster: ClusterExplanation) -> Document:
    return {
        "name": cluster.name,
        "region": cluster.region,
        "zones": list(cluster.zones),
        "feasible": cluster.feasible,
        "selected": cluster.selected,
        "replicas": cluster.replicas,
        "current": cluster.current,
        "score": cluster.score,
        "room": cluster.room,
        "rejections": [{"rule": r.rule, "reason": r.reason} for r in cluster.rejections],
    }


def _relaxation(relaxation: FleetRelaxation) -> Document:
    return {
        "sentence": relaxation.sentence,
        "change": relaxation.change,
        "clusters": list(relaxation.clusters),
        "feasible": relaxation.fits,
    }
