"""Karmada's kinds as CustomResourceDefinitions.

They accept every field that Karmada's own definitions (v1.18) have, in one version each.
"""

from __future__ import annotations

from typing import Any

from berth.kube.karmada import CLUSTER_GROUP, POLICY_GROUP, WORK_GROUP
from berth.server.registry.kinds.karmada.parts import (
    REASON,
    Schema,
    amounts,
    conditions,
    label_selector,
    many,
    mapping,
    number,
    quantity,
    requirement,
    struct,
    switch,
    text,
    texts,
    time,
    toleration,
)
from berth.server.registry.kinds.karmada.placements import placement

# A definition is brought up to date at the next start as long as it says so itself.
AUTOUPDATE = "berth.dev/autoupdate"

_AGE = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def definitions() -> list[dict[str, Any]]:
    """All of them, as a client would create them."""
    policies = [
        ("CONFLICT-RESOLUTION", ".spec.conflictResolution", 0),
        ("PRIORITY", ".spec.priority", 0),
    ]
    bindings = [
        (name.upper(), f'.status.conditions[?(@.type=="{name}")].status', 0)
        for name in ("Scheduled", "FullyApplied")
    ]
    return [
        _definition(CLUSTER_GROUP, "v1alpha1", "Cluster", "clusters", "", _cluster(), _CLUSTER_COLUMNS),
        _definition(
            POLICY_GROUP, "v1alpha1", "PropagationPolicy", "propagationpolicies", "pp", _policy(), policies
        ),
        _definition(
            POLICY_GROUP,
            "v1alpha1",
            "ClusterPropagationPolicy",
            "clusterpropagationpolicies",
            "cpp",
            _policy(),
            policies,
        ),
        _definition(
            WORK_GROUP, "v1alpha2", "ResourceBinding", "resourcebindings", "rb", _binding(), bindings
        ),
        _definition(
            WORK_GROUP,
            "v1alpha2",
            "ClusterResourceBinding",
            "clusterresourcebindings",
            "crb",
            _binding(),
            bindings,
        ),
    ]


def _definition(
    group: str,
    version: str,
    kind: str,
    plural: str,
    short: str,
    schema: Schema,
    columns: list[tuple[str, str, int]],
) -> dict[str, Any]:
    names = {"kind": kind, "plural": plural, "categories": ["karmada-io"]}
    if short:
        names["shortNames"] = [short]
    printed: list[dict[str, Any]] = [
        {"name": name, "type": "string", "jsonPath": path} for name, path, priority in columns if not priority
    ]
    printed.append(_AGE)
    printed += [
        {"name": name, "type": "string", "jsonPath": path, "priority": 1}
        for name, path, priority in columns
        if priority
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {AUTOUPDATE: "true"}},
        "spec": {
            "group": group,
            "scope": "Cluster" if kind.startswith("Cluster") else "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}} if "status" in schema["properties"] else {},
                    "additionalPrinterColumns": printed,
                }
            ],
        },
    }


# --- clusters -------------------------------------------------------------------------------------------

_CLUSTER_COLUMNS = [
    ("VERSION", ".status.kubernetesVersion", 0),
    ("MODE", ".spec.syncMode", 0),
    ("READY", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("ZONES", ".spec.zones", 1),
    ("REGION", ".spec.region", 1),
    ("PROVIDER", ".spec.provider", 1),
    ("API-ENDPOINT", ".spec.apiEndpoint", 1),
    ("PROXY-URL", ".spec.proxyURL", 1),
]


def _cluster() -> Schema:
    return struct(
        "A member cluster: where workloads are put. Its status may be given together with its spec.",
        "spec",
        spec=_cluster_spec(),
        status=_cluster_status(),
    )


def _cluster_spec() -> Schema:
    def secret(about: str) -> Schema:
        fields = {"namespace": text("Where the Secret is."), "name": text("What it is called.")}
        return struct(about, "namespace", "name", **fields)

    taint = struct(
        "Keeps workloads away that do not tolerate it.",
        "key",
        "effect",
        key=text("Its key, a label key."),
        value=text("Its value, a label value."),
        effect=text("What it does.", "NoSchedule", "PreferNoSchedule", "NoExecute"),
        timeAdded=time("Since when it has been there; set for NoExecute."),
    )
    range_ = struct(
        "From how much up to how much of one resource.",
        "name",
        "min",
        "max",
        name=text("The resource."),
        min=quantity("The least amount."),
        max=quantity("The amount below which nodes are."),
    )
    model = struct(
        "Nodes of a certain size.",
        "grade",
        "ranges",
        grade=number("Its rank by size.", "int64", minimum=0),
        ranges=many("What nodes of this size have.", range_),
    )
    return struct(
        "What is wanted of the cluster, and where it is.",
        id=text("What the cluster is known by, whatever its name.", maxLength=128000),
        syncMode=text(
            "Whether the control plane pushes, or the cluster pulls.", "Push", "Pull", default="Push"
        ),
        apiEndpoint=text("Where its API server is."),
        secretRef=secret("What the control plane signs in with."),
        impersonatorSecretRef=secret("What it impersonates users with."),
        insecureSkipTLSVerification=switch("Whether to trust whoever answers."),
        proxyURL=text("A proxy on the way to it."),
        proxyHeader=mapping("Headers for the proxy."),
        provider=text("Who runs it."),
        region=text("The region it is in."),
        zone=text("The zone it is in; kept in zones."),
        zones=texts("The zones it is in."),
        taints=many("What keeps workloads away.", taint),
        resourceModels=many("Sizes of nodes, to judge capacity by.", model),
    )


def _cluster_status() -> Schema:
    resource = struct(
        "One resource.",
        "name",
        "kind",
        name=text("Its plural name."),
        kind=text("The kind of its objects."),
    )
    enabled = struct(
        "A version of an API group the cluster serves.",
        "groupVersion",
        groupVersion=text("Such as apps/v1."),
        resources=many("What it has.", resource),
    )
    modeling = struct(
        "How many nodes are of one size.",
        "grade",
        "count",
        grade=number("The size.", "int64", minimum=0),
        count=number("How many.", "int64"),
    )
    return struct(
        "What was found out about the cluster.",
        kubernetesVersion=text("The version of its API server."),
        apiEnablements=many("What it serves; workloads of other kinds are not put there.", enabled),
        conditions=conditions("Ready, among others."),
        nodeSummary=struct(
            "Its nodes.",
            totalNum=number("How many there are."),
            readyNum=number("How many are ready."),
        ),
        resourceSummary=struct(
            "Its capacity; without it, it has none.",
            allocatable=amounts("What all its nodes have."),
            allocated=amounts("What is taken."),
            allocating=amounts("What is asked for by pods that wait."),
            allocatableModelings=many("Nodes by size.", modeling),
        ),
        remedyActions=texts("What is being done about its trouble."),
    )


# --- policies -------------------------------------------------------------------------------------------


def _policy() -> Schema:
    return struct("Which resources are put on which clusters.", "spec", spec=_policy_spec())


def _policy_spec() -> Schema:
    selector = struct(
        "Selects resources of one kind: by name, else by labels, else all.",
        "apiVersion",
        "kind",
        apiVersion=text("Their API version, such as apps/v1."),
        kind=text("Their kind."),
        namespace=text("Where they are; in a PropagationPolicy, its own namespace."),
        name=text("The name of the only one."),
        labelSelector=label_selector("Labels they must have; ignored if there is a name."),
    )
    return struct(
        "What is selected, and what becomes of it.",
        "resourceSelectors",
        resourceSelectors=many("What is selected.", selector, minItems=1),
        placement=placement(),
        priority=number("Among policies for the same resource the highest wins.", default=0),
        preemption=text(
            "Whether it takes resources from policies of lower priority.", "Always", "Never", default="Never"
        ),
        schedulerName=text("Which scheduler decides.", default="default-scheduler"),
        schedulePriority=struct(
            "How urgent scheduling is.",
            "priorityClassName",
            "priorityClassSource",
            priorityClassSource=text("Where the class is looked for.", "KubePriorityClass"),
            priorityClassName=text("Its name."),
        ),
        association=switch("No longer used: see propagateDeps."),
        propagateDeps=switch("Whether what the resource refers to goes along."),
        dependentOverrides=texts("Override policies that must be there first."),
        activationPreference=text("Lazy: a change takes effect when the resource changes.", "Lazy"),
        conflictResolution=_conflict_resolution(),
        failover=_failover(),
        preserveResourcesOnDeletion=switch("Whether what was propagated outlives its template."),
        suspension=struct("What is put off.", **_suspension()),
    )


def _conflict_resolution() -> Schema:
    return text("What if the resource is already there.", "Abort", "Overwrite", default="Abort")


def _suspension() -> dict[str, Schema]:
    names = texts("Names of clusters.")
    return {
        "dispatching": switch("Nothing is sent to any cluster."),
        "dispatchingOnClusters": struct("Nothing is sent to these.", clusterNames=names),
    }


def _failover() -> Schema:
    rule = struct(
        "A value to keep.",
        "aliasLabelName",
        "jsonPath",
        aliasLabelName=text("The label it is kept in."),
        jsonPath=text("Where it is in the status."),
    )
    kept = struct("What of the state moves along.", "rules", rules=many("Values to keep.", rule))

    def purge(*modes: str) -> Schema:
        return text("What becomes of the old one.", *modes, default="Gracefully")

    return struct(
        "When and how the workload moves to another cluster.",
        application=struct(
            "When it is not healthy.",
            "decisionConditions",
            decisionConditions=struct(
                "When that is decided.",
                tolerationSeconds=number("After how long.", default=300),
            ),
            purgeMode=purge("Directly", "Gracefully", "Never"),
            gracePeriodSeconds=number("How long the old one is kept at most."),
            statePreservation=kept,
        ),
        cluster=struct(
            "When its cluster fails.", purgeMode=purge("Directly", "Gracefully"), statePreservation=kept
        ),
    )


# --- bindings -------------------------------------------------------------------------------------------


def _binding() -> Schema:
    return struct(
        "A resource, and the clusters it was put on.", "spec", spec=_binding_spec(), status=_binding_status()
    )


def _binding_spec() -> Schema:
    owner = struct(
        "A binding that this one goes along with.",
        "name",
        namespace=text("Where it is."),
        name=text("What it is called."),
        clusters=_targets("Where it was put."),
    )
    component = struct(
        "One kind of pod of a workload that has several.",
        "name",
        "replicas",
        name=text("What it is called.", maxLength=32),
        replicas=number("How many there are."),
        replicaRequirements=_requirements(),
    )
    return struct(
        "The resource, its wishes, and the decision.",
        "resource",
        resource=struct(
            "The resource.",
            "apiVersion",
            "kind",
            "name",
            apiVersion=text("Its API version."),
            kind=text("Its kind."),
            namespace=text("Its namespace."),
            name=text("Its name."),
            uid=text("Its uid."),
            resourceVersion=text("Its version when the binding was brought up to date."),
        ),
        placement=placement(),
        replicas=number("How many replicas it has."),
        replicaRequirements=_requirements(namespace=text("The namespace of its pods.")),
        components=many("Its kinds of pods, if it has several.", component),
        clusters=_targets("The decision: where it is put."),
        gracefulEvictionTasks=many("Clusters it is being moved away from.", _eviction_task()),
        requiredBy=many("Bindings this one goes along with.", owner),
        schedulerName=text("Which scheduler decides."),
        schedulePriority=struct("How urgent it is.", priority=number("The higher, the sooner.", default=0)),
        rescheduleTriggeredAt=time("When somebody asked to decide anew."),
        workloadAffinityGroups=struct(
            "The groups it is in, each as key=value.",
            affinityGroup=text("Runs on the same clusters as the others of this group."),
            antiAffinityGroup=text("Runs on other clusters than the others of this group."),
        ),
        propagateDeps=switch("Whether what the resource refers to goes along."),
        conflictResolution=_conflict_resolution(),
        failover=_failover(),
        preserveResourcesOnDeletion=switch("Whether what was propagated outlives its template."),
        suspension=struct(
            "What is put off.", scheduling=switch("It is not scheduled for now."), **_suspension()
        ),
    )


def _targets(about: str) -> Schema:
    part = struct(
        "Replicas of one component.",
        "name",
        "replicas",
        name=text("Which component."),
        replicas=number("How many."),
    )
    target = struct(
        "A cluster and its share.",
        "name",
        name=text("The cluster."),
        replicas=number("How many replicas it gets."),
        components=many("How many of each component.", part),
    )
    return many(about, target)


def _requirements(**more: Schema) -> Schema:
    nodes = requirement("One requirement about a node.", "In, NotIn, Exists, DoesNotExist, Gt or Lt")
    term = struct(
        "Requirements that must all hold.",
        matchExpressions=many("About labels.", nodes),
        matchFields=many("About fields.", nodes),
    )
    affinity = struct(
        "Terms of which one must hold.", "nodeSelectorTerms", nodeSelectorTerms=many("The terms.", term)
    )
    return struct(
        "What one replica needs.",
        nodeClaim=struct(
            "Of the node it runs on.",
            hardNodeAffinity=affinity,
            nodeSelector=mapping("Labels of the node."),
            tolerations=many("Taints of the node that do not matter.", toleration("A tolerated taint.")),
        ),
        resourceRequest=amounts("Of resources."),
        priorityClassName=text("The priority class of its pods."),
        **more,
    )


def _eviction_task() -> Schema:
    return struct(
        "A cluster it is being moved away from, where it runs until it does elsewhere.",
        "fromCluster",
        "producer",
        "reason",
        fromCluster=text("The cluster."),
        replicas=number("How many replicas it had there."),
        reason=text("Why, in one word.", minLength=1, maxLength=32, pattern=REASON),
        message=text("Why, in a sentence.", maxLength=1024),
        producer=text("Who says so."),
        purgeMode=text("What becomes of the old one.", "Directly", "Gracefully", "Never"),
        gracePeriodSeconds=number("How long the old one is kept at most."),
        suppressDeletion=switch("True keeps the old one for good, false lets it go at once."),
        creationTimestamp=time("Since when."),
        preservedLabelState=mapping("State that moves along, as labels."),
        clustersBeforeFailover=texts("Where it was before."),
    )


def _binding_status() -> Schema:
    there = struct(
        "How the resource is doing in one cluster.",
        "clusterName",
        clusterName=text("The cluster."),
        applied=switch("Whether it arrived."),
        appliedMessage=text("Why it did not."),
        health=text("How it is.", "Healthy", "Unhealthy", "Unknown"),
        status={
            "type": "object",
            "description": "Its status there.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
    )
    return struct(
        "What became of the binding.",
        conditions=conditions("Scheduled and FullyApplied."),
        aggregatedStatus=many("How the resource is doing in each cluster.", there),
        schedulerObservedGeneration=number("The generation the scheduler looked at last.", "int64"),
        schedulerObservingAffinityName=text("Which of the clusterAffinities is in use."),
        lastScheduledTime=time("When it was last scheduled."),
    )
