"""Profiles: which plugins are enabled where, and what they count."""

import pytest

from berth.kube.scheduler_configuration.load import read
from berth.kube.scheduler_configuration.plugins import DEFAULTS, KNOWN, POINTS
from tests.kube.scheduler_configuration.given import HEAD, configuration, plugins, refusal


def test_every_default_plugin_has_its_points() -> None:
    """The tables agree with each other."""
    assert KNOWN.issuperset(DEFAULTS)
    assert {name for name, weight in DEFAULTS.items() if weight} <= POINTS["score"]


def test_profile_names() -> None:
    """Every one of several profiles has a name of its own; a single one may go without."""
    assert [
        p.scheduler_name for p in configuration("profiles: [{schedulerName: a}, {schedulerName: b}]").profiles
    ] == [
        "a",
        "b",
    ]
    assert read(HEAD, default_scheduler_name="berth").profiles[0].scheduler_name == "berth"
    expected = 'profiles[1].schedulerName: Duplicate value: "a": profiles[0] has it already'
    assert expected == refusal("profiles: [{schedulerName: a}, {schedulerName: a}]")
    expected = "profiles[1].schedulerName: Required value: every profile needs a name of its own"
    assert expected == refusal("profiles: [{schedulerName: a}, {}]")


def test_points_since_1_37() -> None:
    """The rules about a node's name, cordon and taints have a PreFilter step, and groups one of their own."""
    found = plugins(
        "{preFilter: {enabled: [{name: NodeName}, {name: NodeUnschedulable}, {name: TaintToleration}]}, "
        "podGroupPostFilter: {disabled: [{name: '*'}]}}"
    )
    assert found.enables("filter", "NodeName")
    assert found.enables("postFilter", "DefaultPreemption")
    assert not found.enables("podGroupPostFilter", "DefaultPreemption")


def test_one_point_can_be_disabled() -> None:
    """A plugin that is off for one point works at the others."""
    found = plugins(
        "{filter: {disabled: [{name: TaintToleration}]}, score: {disabled: [{name: NodeAffinity}]}}"
    )

    assert not found.enables("filter", "TaintToleration")
    assert found.enables("score", "TaintToleration")
    assert found.enables("filter", "NodeAffinity")
    assert not found.enables("score", "NodeAffinity")
    assert "NodeAffinity" not in found.weights
    assert found.weights["TaintToleration"] == 3


def test_all_can_be_disabled_but_some() -> None:
    """With a star only what is enabled by name remains, and without a weight it counts once."""
    found = plugins(
        "{score: {disabled: [{name: '*'}], "
        "enabled: [{name: NodeAffinity}, {name: ImageLocality, weight: 7}]}}"
    )

    assert found.weights == {"NodeAffinity": 1, "ImageLocality": 7}
    assert found.plugins["score"] == {"NodeAffinity", "ImageLocality"}
    assert found.enables("filter", "NodePorts")


def test_multi_point() -> None:
    """It enables and disables at all points; what is said for one point wins."""
    found = plugins(
        "{multiPoint: {enabled: [{name: TaintToleration, weight: 5}, {name: NodeAffinity, weight: 6}], "
        "disabled: [{name: ImageLocality}, {name: InterPodAffinity}]}, "
        "score: {enabled: [{name: NodeAffinity, weight: 9}, {name: InterPodAffinity}]}}"
    )

    assert (found.weights["TaintToleration"], found.weights["NodeAffinity"]) == (5, 9)
    assert "ImageLocality" not in found.weights
    assert not found.enables("filter", "InterPodAffinity")
    assert found.weights["InterPodAffinity"] == 1
    assert found.enables("filter", "NodeName")


def test_nothing_but_what_is_needed() -> None:
    """A profile can be built from scratch."""
    found = plugins(
        "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, "
        "{name: NodeResourcesFit, weight: 4}]}}"
    )

    assert found.plugins["filter"] == {"NodeResourcesFit"}
    assert found.weights == {"NodeResourcesFit": 4}
    assert not found.enables("postFilter", "DefaultPreemption")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            "{score: {enabled: [{name: ImageLocality}, {name: Coscheduling}]}}",
            (
                'score.enabled[1].name: Invalid value: "Coscheduling": '
                'ScorePlugin "Coscheduling" does not exist: '
                "Berth has the plugins of kube-scheduler v1.37 and no others"
            ),
        ),
        (
            "{multiPoint: {disabled: [{name: NodeAfinity}]}}",
            (
                'multiPoint.disabled[0].name: Invalid value: "NodeAfinity": '
                'plugin "NodeAfinity" does not exist: '
                "Berth has the plugins of kube-scheduler v1.37 and no others"
            ),
        ),
        (
            "{score: {enabled: [{name: NodePorts}]}}",
            (
                'score.enabled[0].name: Invalid value: "NodePorts": plugin "NodePorts" does not extend '
                "ScorePlugin plugin, only preFilter, filter"
            ),
        ),
        (
            "{score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}",
            (
                'score.enabled[1].name: Invalid value: "ImageLocality": plugin "ImageLocality" already '
                'registered as "ScorePlugin"'
            ),
        ),
        (
            "{filter: {enabled: [{weight: 1}]}}",
            "filter.enabled[0].name: Required value: write the name of a plugin",
        ),
        (
            "{filter: {enabled: [{name: EBSLimits}]}}",
            (
                'filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
                '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
            ),
        ),
        (
            "{score: {enabled: [{name: ImageLocality, weight: -1}]}}",
            (
                "score.enabled[0].weight: Invalid value: -1: must not be negative: "
                "disable the plugin for score if it is not to count"
            ),
        ),
        (
            "{score: {enabled: [{name: ImageLocality, weight: 2000000}]}}",
            (
                "score: Invalid value: 2000014: total score of Score plugins could overflow: "
                "their weights add up to over 1000000"
            ),
        ),
        ("{score: {enabled: [{name: 1}]}}", "score.enabled[0].name: expected a string, got 1"),
        (
            "{queueSort: {disabled: [{name: '*'}]}}",
            (
                "queueSort: Invalid value: []: only one queue sort plugin required "
                'for profile with scheduler name "default-scheduler", but got 0: enable PrioritySort'
            ),
        ),
        (
            "{bind: {disabled: [{name: DefaultBinder}]}}",
            (
                "bind: Invalid value: []: at least one bind plugin is needed for profile with scheduler name "
                '"default-scheduler": DefaultBinder'
            ),
        ),
    ],
)
def test_wrong_plugins(fields: str, sentence: str) -> None:
    """The path leads to the entry that is wrong."""
    assert f"profiles[0].plugins.{sentence}" == refusal(f"profiles: [{{plugins: {fields}}}]")


def test_unknown_points() -> None:
    """An extension point that there is not is an unknown field like any other."""
    expected = 'unknown field "profiles[0].plugins.preFiltre": did you mean "preFilter"?'
    assert expected == refusal("profiles: [{plugins: {preFiltre: {}}}]")


def test_the_queue_is_sorted_alike() -> None:
    """There is one queue for all profiles."""
    expected = (
        'profiles[1].plugins.queueSort: Invalid value: ["PrioritySort"]: must be the same for all profiles'
    )
    sort = "{queueSort: {enabled: [{name: PrioritySort}]}}"
    assert expected == refusal(f"profiles: [{{schedulerName: a}}, {{schedulerName: b, plugins: {sort}}}]")


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        (
            "{plugins: {placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}}}",
            ["profiles[0]: TopologyPlacementGenerator has no effect: Berth has no such rule"],
        ),
        (
            "{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 5s}}]}",
            [
                "profiles[0].pluginConfig[0].args.filterTimeout has no effect: Berth allocates no devices",
            ],
        ),
        ("{plugins: {filter: {disabled: [{name: NodeVolumeLimits}, {name: EBSLimits}]}}}", []),
        (
            "{plugins: {preScore: {disabled: [{name: NodeAffinity}]}}}",
            ["profiles[0]: preScore of NodeAffinity stays on with its score"],
        ),
        ("{plugins: {score: {disabled: [{name: NodeAffinity}]}}}", []),
        (
            "{plugins: {preEnqueue: {disabled: [{name: '*'}]}}}",
            ["profiles[0]: SchedulingGates stays on: gated pods are never placed"],
        ),
        (
            "{pluginConfig: [{name: NodePorts, args: {a: b}}]}",
            ["profiles[0].pluginConfig[0]: NodePorts takes no arguments"],
        ),
        (
            "{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesAbsolute: 7}}]}",
            [
                (
                    "profiles[0].pluginConfig[0].args has no effect: "
                    "preemption looks at 10 % of the nodes, at least 100"
                )
            ],
        ),
        (
            "{percentageOfNodesToScore: 5}",
            ["profiles[0].percentageOfNodesToScore has no effect: Berth always looks at all nodes"],
        ),
    ],
)
def test_notes(fields: str, notes: list[str]) -> None:
    """What is accepted but changes nothing is said."""
    assert notes == list(configuration(f"profiles: [{fields}]").notes)
