"""Profiles of a scheduler's configuration, as the engine follows them."""

from msgspec.structs import replace as with_fields

from berth.engine.state.cluster import Cluster
from berth.engine.state.options import DEFAULT_WEIGHTS, Options, options_of
from berth.kube.defaults import created, default_node
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import Node, Pod
from berth.kube.scheduler_configuration.load import default, read
from tests.support.builders import HOSTNAME, make_node, make_pod, where
from tests.support.engine import chosen_by, verdict_of

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def options(profile: str = "{}") -> Options:
    """Those of a profile, given as a flow mapping."""
    (found,) = read(f"{HEAD}profiles: [{profile}]").profiles
    return options_of(found, DEFAULT_GATES)


def cluster(*nodes: Node, options: Options, profiles: dict[str, Options] | None = None) -> Cluster:
    engine = Cluster(options, profiles=profiles)
    for node in nodes:
        engine.add_node(default_node(node))
    return engine


def scheduled_by(name: str, pod: Pod) -> Pod:
    return with_fields(pod, spec=with_fields(pod.spec, scheduler_name=name))


# --- the mapping ------------------------------------------------------------------------


def test_no_configuration_is_the_default() -> None:
    """The default profile leaves every option as it is."""
    assert Options() == options_of(default().profiles[0], DEFAULT_GATES)


def test_base_and_gates() -> None:
    """What no profile can say comes from elsewhere."""
    gates = FeatureGates(even_pods_spread=False)
    base = Options(daemon_namespaces=frozenset({"infra"}), exact_namespace_selectors=True)
    found = options_of(default().profiles[0], gates, base=base)

    assert found.gates is gates
    assert found.daemon_namespaces == {"infra"}
    assert found.exact_namespace_selectors


def test_filter_and_score_apart() -> None:
    """A plugin may do one, the other, both or neither."""
    found = options(
        "{plugins: {filter: {disabled: "
        "[{name: TaintToleration}, {name: NodePorts}, {name: InterPodAffinity}]}, "
        "score: {disabled: [{name: InterPodAffinity}, {name: NodeAffinity}, {name: ImageLocality}]}}}"
    )

    assert found.not_filtering == {"TaintToleration"}
    assert found.disabled == {"NodePorts", "InterPodAffinity", "ImageLocality"}
    left_out = ("InterPodAffinity", "NodeAffinity", "ImageLocality")
    assert found.weights == {k: v for k, v in DEFAULT_WEIGHTS.items() if k not in left_out}


def test_weights_and_arguments() -> None:
    """Every argument of a rule reaches it."""
    found = options(
        "{plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 9}]}}, pluginConfig: ["
        "{name: InterPodAffinity, args: "
        "{hardPodAffinityWeight: 7, ignorePreferredTermsOfExistingPods: true}}, "
        "{name: PodTopologySpread, args: {defaultingType: List}}, "
        "{name: NodeAffinity, args: {addedAffinity: {}}}, "
        "{name: NodeResourcesBalancedAllocation, args: {resources: [{name: example.com/gpu}]}}, "
        "{name: NodeResourcesFit, args: {ignoredResources: [a.io/x], ignoredResourceGroups: [b.io], "
        "scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 3}], "
        "requestedToCapacityRatio: {shape: [{utilization: 10, score: 5}]}}}}]}"
    )

    assert found.weights["NodeResourcesFit"] == 9
    args = found.args
    assert (args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods) == (7, True)
    assert (args.defaulting_type, args.default_constraints) == ("List", ())
    assert args.added_affinity is not None
    assert args.balanced_resources == ("example.com/gpu",)
    assert args.ignored_resources == ("a.io/x",)
    assert args.ignored_resource_groups == ("b.io",)
    assert (args.scoring_strategy, args.scoring_resources) == ("RequestedToCapacityRatio", (("cpu", 3),))
    assert args.scoring_shape == ((10, 5),)


# --- what comes of it -------------------------------------------------------------------


def test_a_rule_that_only_scores() -> None:
    """Taints that would keep the pod away no longer do, but soft ones still cost points."""
    hard = make_node("hard").taint("a", effect="NoSchedule").build()
    soft = make_node("soft").taint("a", effect="PreferNoSchedule").build()
    pod = make_pod("p").build()
    engine = cluster(
        hard, soft, options=options("{plugins: {filter: {disabled: [{name: TaintToleration}]}}}")
    )

    verdict = verdict_of(engine, pod)
    assert verdict["feasible"] == ["hard", "soft"]
    normalized = {n: s["normalized"] for n, s in verdict["scores"]["TaintToleration"].items()}
    assert normalized == {"hard": 100, "soft": 0}
    assert chosen_by(engine, pod) == "hard"


def test_a_rule_that_only_filters() -> None:
    """Without its score, preferences do not count; an error in them does no harm either."""
    unscored = options("{plugins: {score: {disabled: [{name: NodeAffinity}]}}}")
    engine = cluster(make_node("a").build(), make_node("b").labels(gen="2").build(), options=unscored)
    wrong = make_pod("p").node_affinity(where("gen")).prefers_nodes(where("gen", "Gt", "x")).build()

    verdict = verdict_of(engine, wrong)
    assert verdict["feasible"] == ["b"]
    assert "NodeAffinity" not in verdict["scores"]
    assert "error" not in verdict
    assert chosen_by(engine, wrong) == "b"


def test_affinity_that_does_not_filter() -> None:
    """Required terms of pods no longer refuse a node; what they count for others stays."""
    engine = cluster(
        make_node("a").build(),
        options=options("{plugins: {filter: {disabled: [{name: InterPodAffinity}]}}}"),
    )
    pod = make_pod("p").labels(app="web").affinity_to({"app": "db"}, topology=HOSTNAME).build()

    verdict = verdict_of(engine, pod)
    assert verdict["feasible"] == ["a"]
    assert "InterPodAffinity" not in verdict["prefilter"]
    assert chosen_by(engine, pod) == "a"


def test_profiles_side_by_side() -> None:
    """Pods with the same requests but of different profiles fill the same nodes differently."""
    packs = options(
        "{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}"
    )
    nodes = [
        make_node(name).capacity(cpu="8", memory="16G", pods=20).build()
        for name in ("empty", "half", "other")
    ]
    engine = cluster(*nodes, options=Options(), profiles={"packs": packs, "spreads": Options()})
    engine.add_pod(created(make_pod("r").requests(cpu="4", memory="8G").on("half").build()))
    pod = make_pod("p").requests(cpu="1", memory="2G").build()

    for _ in range(2):  # the second time from what is kept
        assert chosen_by(engine, scheduled_by("packs", pod)) == "half"
        assert chosen_by(engine, scheduled_by("spreads", pod)) == "empty"
