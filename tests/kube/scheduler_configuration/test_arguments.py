"""The arguments of plugins."""

import pytest

from berth.kube.objects import NodeAffinity, TopologySpreadConstraint
from berth.kube.scheduler_configuration.model import PluginArguments
from tests.kube.scheduler_configuration.given import args, refusal, refused_args


def test_inter_pod_affinity_args() -> None:
    """The arguments of InterPodAffinity are read, and a weight out of range is refused."""
    found = args("InterPodAffinity", "{hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}")

    assert found.hard_pod_affinity_weight == 0
    assert found.ignore_preferred_terms_of_existing_pods
    expected = "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"
    assert expected == refused_args("InterPodAffinity", "{hardPodAffinityWeight: 101}")


def test_daemon_namespaces_are_an_argument_of_inter_pod_affinity() -> None:
    """Berth's own: a list of namespaces, which may be empty; what is no name of one is refused."""
    assert args("InterPodAffinity", "{}").daemon_namespaces is None
    assert args("InterPodAffinity", "{daemonNamespaces: []}").daemon_namespaces == ()
    assert args("InterPodAffinity", "{daemonNamespaces: [a, b]}").daemon_namespaces == ("a", "b")
    told = refused_args("InterPodAffinity", "{daemonNamespaces: [a, No_Name]}")
    assert told.startswith('daemonNamespaces[1]: Invalid value: "No_Name": a lowercase RFC 1123 label')


def test_node_affinity_args() -> None:
    """The selectors are those of pods, parsed like theirs."""
    required = (
        "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [%s]}]}}"
    )
    found = args("NodeAffinity", "{addedAffinity: %s}" % (required % "{key: a, operator: Exists}"))

    assert isinstance(found.added_affinity, NodeAffinity)
    sentence = refused_args("NodeAffinity", "{addedAffinity: %s}" % (required % "{key: a, operator: Is}"))
    assert sentence == (
        "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
        'matchExpressions[0].operator: Unsupported value: "Is": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    )
    preferred = "[{weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}}]"
    sentence = refused_args(
        "NodeAffinity", f"{{addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: {preferred}}}}}"
    )
    assert sentence == (
        "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchExpressions[0].values: "
        "Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    )


def test_pod_topology_spread_args() -> None:
    """The default constraints of PodTopologySpread are read."""
    found = args(
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: "
        "[{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
    )

    assert found.defaulting_type == "List"
    assert found.default_constraints == (
        TopologySpreadConstraint(max_skew=2, topology_key="zone", when_unsatisfiable="ScheduleAnyway"),
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("", 'defaultingType: Invalid value: "System": when .defaultConstraints are not empty: write'),
        (
            "defaultingType: Some",
            'defaultingType: Unsupported value: "Some": supported values: "System", "List"',
        ),
        ("maxSkew: 0", "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"),
        ("topologyKey: ''", "defaultConstraints[0].topologyKey: Required value: can not be empty"),
        (
            "whenUnsatisfiable: No",
            "defaultConstraints[0].whenUnsatisfiable: expected a string, got false",
        ),
        (
            "whenUnsatisfiable: Never",
            (
                'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: '
                '"DoNotSchedule", "ScheduleAnyway"'
            ),
        ),
        (
            "labelSelector: {}",
            (
                "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, "
                "as they deduced for each pod"
            ),
        ),
        (
            "twice",
            'defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"',
        ),
    ],
)
def test_wrong_spreading(fields: str, sentence: str) -> None:
    """Default constraints are checked as kube-scheduler does."""
    given = {"maxSkew": "1", "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    kind = "List"
    if fields.startswith("defaultingType") or not fields:
        kind = fields.partition(": ")[2] or "System"
    elif fields != "twice":
        name, _, value = fields.partition(": ")
        given[name] = value
    constraint = "{" + ", ".join(f"{name}: {value}" for name, value in given.items()) + "}"
    listed = ", ".join([constraint] * (2 if fields == "twice" else 1))

    found = refused_args("PodTopologySpread", f"{{defaultingType: {kind}, defaultConstraints: [{listed}]}}")
    assert found.startswith(sentence)


def test_node_resources_fit_args() -> None:
    """Weights are 1 if not said; without resources it is cpu and memory."""
    found = args(
        "NodeResourcesFit",
        "{ignoredResources: [example.com/a], ignoredResourceGroups: [example.org], "
        "scoringStrategy: {type: RequestedToCapacityRatio, "
        "resources: [{name: cpu}, {name: example.com/gpu, weight: 5}], "
        "requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}",
    )

    assert found.ignored_resources == ("example.com/a",)
    assert found.ignored_resource_groups == ("example.org",)
    assert found.scoring_strategy == "RequestedToCapacityRatio"
    assert found.scoring_resources == (("cpu", 1), ("example.com/gpu", 5))
    assert found.scoring_shape == ((0, 0), (100, 10))
    most = args("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated}}")
    assert most.scoring_resources == (("cpu", 1), ("memory", 1))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            "{ignoredResourceGroups: [example.com/a]}",
            (
                'ignoredResourceGroups[0]: Invalid value: "example.com/a": '
                "resource group name can't contain '/'"
            ),
        ),
        (
            "{scoringStrategy: {type: Best}}",
            (
                'scoringStrategy.type: Unsupported value: "Best": supported values: '
                '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
            ),
        ),
        (
            "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}",
            (
                "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu "
                "not in valid range (0, 100]"
            ),
        ),
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            (
                "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is "
                "RequestedToCapacityRatio"
            ),
        ),
        (
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            (
                "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not "
                "RequestedToCapacityRatio"
            ),
        ),
        ("ratio []", "shape: Required value: at least one point must be specified"),
        (
            "ratio [{utilization: 5, score: 1}, {utilization: 5, score: 2}]",
            "shape[1].utilization: Invalid value: 5: values must be sorted in increasing order",
        ),
        (
            "ratio [{utilization: 101, score: 1}]",
            "shape[0].utilization: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "ratio [{utilization: 1, score: 11}]",
            "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
        ),
        (
            "ratio [{utilization: 1, Score: 1}]",
            (
                'unknown field "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.'
                'shape[0].Score": did you mean "score"?'
            ),
        ),
    ],
)
def test_wrong_fit_args(fields: str, sentence: str) -> None:
    """NodeResourcesFitArgs are refused on kube-scheduler's conditions."""
    if fields.startswith("ratio "):
        shape = fields.removeprefix("ratio ")
        ratio = f"{{shape: {shape}}}"
        strategy = f"{{type: RequestedToCapacityRatio, requestedToCapacityRatio: {ratio}}}"
        fields = f"{{scoringStrategy: {strategy}}}"

    found = refused_args("NodeResourcesFit", fields)
    prefix = "scoringStrategy.requestedToCapacityRatio."
    assert sentence in (found.removesuffix(" (and 1 more)"), found.removeprefix(prefix))


def test_other_args() -> None:
    """Of the other plugins' arguments everything is read that kube-scheduler has."""
    balanced = args(
        "NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: example.com/gpu, weight: 1}]}"
    )
    preemption = args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 5}")

    assert balanced.balanced_resources == ("cpu", "example.com/gpu")
    assert preemption == PluginArguments()
    assert args("VolumeBinding", "{bindTimeoutSeconds: 60}").bind_timeout_seconds == 60
    assert args("NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}") == (
        PluginArguments()
    )


@pytest.mark.parametrize(
    ("plugin", "fields", "sentence"),
    [
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}]}",
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu}, {name: cpu}]}",
            'resources[1].name: Duplicate value: "cpu"',
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 101}",
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            (
                "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
                "minCandidateNodesAbsolute"
            ),
        ),
        (
            "VolumeBinding",
            "{bindTimeoutSeconds: -1}",
            (
                "bindTimeoutSeconds: Invalid value: -1: "
                "invalid BindTimeoutSeconds, should not be a negative value"
            ),
        ),
        (
            "DynamicResources",
            "{filterTimeout: -1s}",
            'filterTimeout: Invalid value: "-1s": must be zero or positive',
        ),
        (
            "InterPodAffinity",
            "{kind: NodeAffinityArgs}",
            (
                'kind: Invalid value: "NodeAffinityArgs": args for plugin InterPodAffinity were not of type '
                "InterPodAffinityArgs.kubescheduler.config.k8s.io, "
                "got NodeAffinityArgs.kubescheduler.config.k8s.io"
            ),
        ),
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: '5'}",
            'hardPodAffinityWeight: expected an integer, got "5"',
        ),
    ],
)
def test_wrong_args(plugin: str, fields: str, sentence: str) -> None:
    """The sentence is kube-scheduler's where it has one."""
    assert sentence == refused_args(plugin, fields)


def test_whose_args_they_are() -> None:
    """A plugin's arguments are given once, and for a plugin that exists."""
    twice = "{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}"
    expected = 'profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"'
    assert expected == refusal(f"profiles: [{twice}]")
    expected = (
        'profiles[0].pluginConfig[0].name: Invalid value: "Coscheduling": no such plugin: '
        "Berth has the plugins of kube-scheduler v1.37 and no others"
    )
    assert expected == refusal("profiles: [{pluginConfig: [{name: Coscheduling}]}]")
