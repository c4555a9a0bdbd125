"""Pods that are placed together or not at all, in the tools: as the scheduler does it."""

import pytest
from msgspec.structs import replace

from berth.kube.objects import (
    GangPolicy,
    GroupPolicy,
    KubeObject,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodSchedulingGroup,
)
from tests.support.builders import ZONE, PodBuilder, make_node, make_pod
from tests.support.snapshots import explained, messages, new, sentences, simulated, where, zone_node

NATIVE, LABELLED = "scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1"
KINDS = pytest.mark.parametrize("kind", [NATIVE, LABELLED])


def group(kind: str, minimum: int) -> PodGroup:
    spec = (
        PodGroupSpec(scheduling_policy=GroupPolicy(gang=GangPolicy(min_count=minimum)))
        if kind == NATIVE
        else PodGroupSpec(min_member=minimum)
    )
    metadata = ObjectMeta(name="train", namespace="default")
    return PodGroup(api_version=kind, kind="PodGroup", metadata=metadata, spec=spec)


def member(kind: str, name: str, pod: PodBuilder | None = None) -> Pod:
    built = (pod or new(name)).requests(cpu="1")
    if kind == LABELLED:
        return built.labels({"scheduling.x-k8s.io/pod-group": "train"}).build()
    made = built.build()
    return replace(made, spec=replace(made.spec, scheduling_group=PodSchedulingGroup(pod_group_name="train")))


def nodes(*cpus: int) -> list[KubeObject]:
    return [zone_node(f"n{i}", f"z{i}").capacity(cpu=str(cpu)).build() for i, cpu in enumerate(cpus)]


@KINDS
def test_a_group_that_does_not_fit_goes_nowhere(kind: str) -> None:
    """No member is placed, each says why, and the room goes to others."""
    members = [member(kind, f"m{i}") for i in range(4)]
    simulation = simulated(*nodes(2, 1), group(kind, 4), *members, new("other").requests(cpu="1").build())
    assert list(where(simulation)) == ["other"]
    (message,) = set(messages(simulation).values())
    assert message == (
        "pod group default/train needs 4 of 4 pods placed together: "
        "0/2 nodes are available: 2 Insufficient cpu."
    )


@KINDS
def test_a_group_that_fits_is_placed_whole(kind: str) -> None:
    """As many as must be at once, and the others as far as there is room."""
    simulation = simulated(*nodes(2, 1), group(kind, 2), *(member(kind, f"m{i}") for i in range(4)))
    assert sorted(where(simulation)) == ["m0", "m1", "m2"]
    assert messages(simulation) == {"m3": "0/2 nodes are available: 2 Insufficient cpu."}


@KINDS
def test_members_that_run_count(kind: str) -> None:
    """Only what is missing to the minimum has to be placed at once."""
    running = member(kind, "r", new("r").on("n0"))
    simulation = simulated(*nodes(2, 1), group(kind, 3), running, member(kind, "m0"), member(kind, "m1"))
    assert sorted(where(simulation)) == ["m0", "m1"]


@KINDS
def test_a_group_waits_for_its_pods_and_its_object(kind: str) -> None:
    """Too few members, or no PodGroup at all: they wait, and a note says that it is missing."""
    few = simulated(*nodes(9), group(kind, 3), member(kind, "m0"))
    assert messages(few) == {"m0": "waiting for pods of group default/train: 1 of 3 exist"}
    unknown = simulated(*nodes(9), member(kind, "m0"))
    assert messages(unknown) == {"m0": "waiting for pod group default/train to be created"}
    assert unknown.snapshot.notes == [
        "there is no PodGroup default/train among the files: its pods wait for it"
    ]


def test_members_that_are_gated_or_not_ours_do_not_count() -> None:
    """A group of three with one gated and one of another scheduler has one that can be tried."""
    pods = [
        member(LABELLED, "m0"),
        member(LABELLED, "m1", new("m1").gated("example.com/wait")),
        member(LABELLED, "m2", new("m2").scheduler("volcano")),
    ]
    simulation = simulated(*nodes(9), group(LABELLED, 2), *pods)
    assert messages(simulation)["m0"] == (
        "waiting for pods of group default/train: 1 of 2 can be tried; "
        "1 with scheduling gates, 1 of scheduler volcano cannot"
    )
    assert explained("m0", *nodes(9), group(LABELLED, 2), *pods).message == messages(simulation)["m0"]


@KINDS
def test_a_member_waits_for_an_object_that_is_not_there(kind: str) -> None:
    """Without its PodGroup, further pods would change nothing."""
    (wait,) = explained("m0", *nodes(9), member(kind, "m0")).waits
    assert wait.sentence == "PodGroup default/train to be created"


def test_a_group_that_wants_to_be_together_finds_the_domain_that_is_large_enough() -> None:
    """The best domain for the first pod may be too small for all."""
    together = [
        member(LABELLED, f"m{i}", new(f"m{i}").labels(app="x").affinity_to({"app": "x"}, topology=ZONE))
        for i in range(3)
    ]
    simulation = simulated(*nodes(2, 3), group(LABELLED, 3), *together)
    assert set(where(simulation).values()) == {"n1"}


# --- explained -------------------------------------------------------------------------------------------


@KINDS
def test_a_member_of_a_group_that_does_not_fit(kind: str) -> None:
    """It goes nowhere, with the room there is, the nodes as the rest finds them, and what would help."""
    members = [member(kind, f"m{i}") for i in range(6)]
    explanation = explained("m0", *nodes(2, 1), group(kind, 6), *members)
    assert (explanation.state, explanation.node) == ("DoesNotFit", None)
    assert explanation.message == (
        "pod group default/train needs 6 of 6 pods placed together: "
        "0/2 nodes are available: 2 Insufficient cpu. There is room for 3 of them."
    )
    assert [node.verdicts[0].causes for node in explanation.nodes] == [
        ("cpu: 1 wanted, 0 of 2 free",),
        ("cpu: 1 wanted, 0 of 1 free",),
    ]
    field = "minCount" if kind == NATIVE else "minMember"
    assert sentences(explanation) == [
        f"with {field} 3 instead of 6 in PodGroup default/train, 3 of its pods find a node"
    ]


def test_a_group_that_lacks_one_node() -> None:
    """Where one pod more would do, what helps a pod helps the group."""
    members = [member(LABELLED, f"m{i}") for i in range(3)]
    nodes = [make_node("n1").capacity(cpu="2").build(), make_node("n2").taint("gpu").build()]
    explanation = explained("m0", *nodes, group(LABELLED, 3), *members)
    assert sentences(explanation) == [
        "without its request of 1 cpu, n1 fits",
        "with a toleration for the taint gpu:NoSchedule, n2 fits",
        "with minMember 2 instead of 3 in PodGroup default/train, 2 of its pods find a node",
    ]


def test_a_member_that_fits_names_those_that_do_not() -> None:
    """Whoever asks why it waits learns which of the others finds no node, and why."""
    stuck = [member(LABELLED, f"s{i}", new(f"s{i}").node_selector(disk="ssd")) for i in range(2)]
    explanation = explained("m", *nodes(4), group(LABELLED, 3), *stuck, member(LABELLED, "m"))
    (clue,) = explanation.clues
    assert clue == (
        "default/s0 and 1 more of its group find no node: "
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    )
    assert explained("s0", *nodes(4), group(LABELLED, 3), *stuck, member(LABELLED, "m")).clues == []


def test_a_group_is_judged_at_its_turn() -> None:
    """Pods behind a group do not count against it, and asking twice gives the same answer."""
    members = [member(LABELLED, f"m{i}", new(f"m{i}").priority(5)) for i in range(3)]
    low = [new(f"low{i}").requests(cpu="1").build() for i in range(2)]
    explanation = explained("m2", *nodes(2), group(LABELLED, 3), *low, *members)
    assert explanation.message.endswith("There is room for 2 of them.")


def test_a_member_of_a_group_that_waits() -> None:
    """The obstacle is told, with the nodes as they are."""
    explanation = explained("m0", *nodes(2), group(LABELLED, 3), member(LABELLED, "m0"))
    assert (explanation.state, explanation.node) == ("DoesNotFit", None)
    assert explanation.message == "waiting for pods of group default/train: 1 of 3 exist"


def test_a_member_of_a_group_that_fits() -> None:
    """It is placed at its turn, beside the members before it."""
    explanation = explained(
        "m1", *nodes(1, 1), group(LABELLED, 2), member(LABELLED, "m0"), member(LABELLED, "m1")
    )
    assert (explanation.state, explanation.node) == ("Fits", "n1")


@KINDS
def test_a_group_does_not_preempt(kind: str) -> None:
    """Over pods of lower priority it is said that groups make nobody go, and only then."""

    def told(priority: int, policy: str | None = None) -> str:
        low = make_pod("low").requests(cpu="2").on("n0").build()
        wanted = [new(f"m{i}").priority(priority) for i in range(2)]
        members = [member(kind, f"m{i}", each) for i, each in enumerate(wanted)]
        members = [replace(each, spec=replace(each.spec, preemption_policy=policy)) for each in members]
        return explained("m0", *nodes(2), group(kind, 2), low, *members).no_preemption

    assert told(5) == (
        "preemption: pods of lower priority could make room on n0, "
        "but a group does not preempt others as a unit."
    )
    assert told(0) == ""
    assert told(5, policy="Never") == "preemption: not eligible due to preemptionPolicy=Never."


def test_a_group_that_finds_room_is_told_nothing_of_preemption() -> None:
    """If lower priority is not in the way nobody asks; if it does not help, it is told why."""
    low = make_pod("low").requests(cpu="1").on("n0").build()
    members = [member(LABELLED, f"m{i}", new(f"m{i}").priority(5)) for i in range(3)]
    assert explained("m0", *nodes(4), group(LABELLED, 3), low, *members).no_preemption == ""
    assert explained("m0", *nodes(4), group(LABELLED, 4), low, *members).no_preemption == ""
    needy = [member(LABELLED, f"m{i}", new(f"m{i}").priority(5).node_selector(disk="ssd")) for i in range(2)]
    answer = explained("m0", *nodes(4), group(LABELLED, 2), low, *needy).no_preemption
    assert answer.endswith("1 Preemption is not helpful for scheduling.")
