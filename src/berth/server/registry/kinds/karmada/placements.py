"""The schema of a placement, which policies and bindings share: Karmada's fields and the proposal's."""

from __future__ import annotations

from berth.server.registry.kinds.karmada.parts import (
    Schema,
    label_selector,
    many,
    number,
    requirement,
    struct,
    switch,
    text,
    texts,
    toleration,
)

_NAME_LENGTH = {"minLength": 1, "maxLength": 32}


def placement() -> Schema:
    return struct(
        "Where the workload may run, and how it is spread and divided.",
        clusterAffinity=_cluster_affinity("The clusters to choose from; with none, all."),
        clusterAffinities=many(
            "Sets of clusters that are tried one after the other; not together with clusterAffinity.",
            _cluster_affinity(
                "A set of clusters.",
                "affinityName",
                affinityName=text("Its name, which is recorded in the binding's status.", **_NAME_LENGTH),
                overflowAffinities=many(
                    "Sets that take in turn the replicas for which the set before has no room.",
                    _cluster_affinity(
                        "A set of clusters to overflow to.",
                        "affinityName",
                        affinityName=text("Its name.", **_NAME_LENGTH),
                    ),
                ),
            ),
        ),
        clusterTolerations=many("Taints of clusters that do not matter.", toleration("A tolerated taint.")),
        spreadConstraints=many("Over how many domains the workload is spread.", _spread()),
        replicaScheduling=_replica_scheduling(),
        workloadAffinity=_workload_affinity(),
        workloadAntiAffinity=struct(
            "Workloads this one is kept away from. Berth's; Karmada's own definitions do not have it.",
            **_rules("is not put where such a workload runs", "would rather not be put"),
        ),
    )


def _cluster_affinity(about: str, *required: str, **more: Schema) -> Schema:
    return struct(
        about,
        *required,
        clusterNames=texts("Names of clusters; with none, all."),
        exclude=texts("Names of clusters that are left out."),
        labelSelector=label_selector("Which labels a cluster must have."),
        fieldSelector=struct(
            "What a cluster's provider, region and zone must be.",
            matchExpressions=many(
                "Requirements that must all hold.",
                requirement("One requirement about provider, region or zone.", "In or NotIn"),
            ),
        ),
        **more,
    )


def _spread() -> Schema:
    return struct(
        "How many domains of one kind are used.",
        spreadByField=text(
            "The kind of domain; together with region, zone or provider there has to be one for cluster.",
            "cluster",
            "region",
            "zone",
            "provider",
        ),
        spreadByLabel=text("A label of clusters whose values are the domains."),
        minGroups=number("The least number of domains; 1 if not given.", "int64"),
        maxGroups=number("The largest number of domains.", "int64"),
    )


def _replica_scheduling() -> Schema:
    weighted = struct(
        "Some clusters, and their weight.",
        "targetCluster",
        "weight",
        targetCluster=_cluster_affinity("Which clusters."),
        weight=number("What each of them weighs.", "int64", minimum=1),
    )
    return struct(
        "How many replicas each cluster gets; without it, each gets all.",
        replicaSchedulingType=text(
            "Whether every cluster gets all replicas, or they are divided.",
            "Duplicated",
            "Divided",
            default="Divided",
        ),
        replicaDivisionPreference=text(
            "Whether they are divided by weight, or over as few clusters as there is room in.",
            "Aggregated",
            "Weighted",
        ),
        weightPreference=struct(
            "The weights; without it all clusters weigh the same.",
            staticWeightList=many("Weights that are given.", weighted),
            dynamicWeight=text("Weights that are found out: the room there is.", "AvailableReplicas"),
        ),
    )


# --- workloads ----------------------------------------------------------------------------------------


def _workload_affinity() -> Schema:
    def group(about: str) -> Schema:
        key = text("The label of the workload whose value names its group.")
        return struct(about, "groupByLabelKey", groupByLabelKey=key)

    return struct(
        "Workloads this one belongs with, and, as Karmada has it, a group it is kept apart from.",
        affinity=group("Workloads of one group run on the same clusters."),
        antiAffinity=group("Workloads of one group run on different clusters."),
        **_rules("is only put where such a workload runs", "would rather be put"),
    )


def _rules(hard: str, soft: str) -> dict[str, Schema]:
    weighted = struct(
        "A term and how much it matters.",
        "weight",
        "workloadAffinityTerm",
        weight=number("How much, from 1 to 100.", minimum=1, maximum=100),
        workloadAffinityTerm=_term(),
    )
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": many(
            f"Terms that must all hold: for each, the workload {hard}.", _term()
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": many(
            f"Terms that count by weight: for each, the workload {soft} where such a workload runs.", weighted
        ),
    }


def _term() -> Schema:
    return struct(
        "Which other workloads are meant, and what counts as the same place.",
        labelSelector=label_selector("Labels of the other workloads; without it none are meant."),
        matchLabelKeys=texts("Labels in which the others have the same value as this workload."),
        affinityEnabled=switch(
            "Compare by the label keys the scheduler was started with, instead of the two fields above."
        ),
        topologyKey=text(
            "The same place: cluster (the default), zone, region, provider, or a label of clusters."
        ),
        namespaces=texts("Where the others are; without it, and without a selector, in the same namespace."),
        namespaceSelector=label_selector("Labels of namespaces where the others are; {} means all."),
    )
