"""How many pods a budget of a snapshot lets go, and whose eviction it stops."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from berth.engine.offline.budgets import AllowedDisruptions, DisruptionBudget, budgets_of, may_be_ready
from berth.engine.offline.snapshot import Entry
from berth.kube.objects import (
    Condition,
    KubeObject,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    PodStatus,
    Workload,
    WorkloadSpec,
)
from berth.kube.selectors import Selector, parse_label_selector
from tests.support.builders import PodBuilder, make_node, make_pod, make_selector
from tests.support.snapshots import budget, manifest, snapshot


def web(name: str) -> PodBuilder:
    return make_pod(name).labels(app="web").on("n1")


def ready(pod: Pod, status: str) -> Pod:
    found = pod.status or PodStatus()
    return replace(pod, status=replace(found, conditions=[Condition(type="Ready", status=status)]))


def replica_set(replicas: int) -> Workload:
    """With a uid, so that no server would judge its missing template."""
    return Workload(
        api_version="apps/v1",
        kind="ReplicaSet",
        metadata=ObjectMeta(name="rs", namespace="default", uid="uid-rs"),
        spec=WorkloadSpec(replicas=replicas, selector=make_selector(app="web")),
    )


def the_budget(*things: KubeObject) -> DisruptionBudget:
    (found,) = budgets_of(snapshot(make_node("n1").build(), *things))
    return found


def entry(pod: Pod) -> Entry:
    return Entry(pod, manifest(pod))


def test_pods_are_asked_about_by_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all that have the same: a cluster has many pods and many budgets."""
    asked = 0
    matches = Selector.matches

    def counting(self: Selector, labels: Mapping[str, str]) -> bool:
        nonlocal asked
        asked += 1
        return matches(self, labels)

    monkeypatch.setattr(Selector, "matches", counting)
    pods = [web(f"w{i}").build() for i in range(50)]
    found = the_budget(*pods, budget(min_available=1))
    allowed = AllowedDisruptions([found])
    assert (found.pods, [allowed.evict(entry(pod)) for pod in pods].count(())) == (50, 49)
    assert asked == 2


# --- numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "desired", "allowed"),
    [
        (budget(min_available=3), 3, 1),
        (budget(min_available="50%"), 2, 2),
        (budget(max_unavailable=1), 3, 1),
        (budget(max_unavailable="30%"), 2, 2),
        (budget(), 1, 3),
    ],
)
def test_numbers_are_computed_without_a_status(
    given: PodDisruptionBudget, desired: int, allowed: int
) -> None:
    """Four pods that run: shares are rounded up, and one is kept if nothing is said."""
    pods = [web(f"w{i}").owned_by("ReplicaSet", "other").build() for i in range(4)]
    found = the_budget(given, *pods)

    assert (found.pods, found.healthy, found.desired) == (4, 4, desired)
    assert (found.allowed, found.computed) == (allowed, True)


def test_shares_are_of_what_the_workload_is_meant_to_run() -> None:
    """Two of four replicas are there: half of four are needed, so none may go."""
    pods = [web(f"w{i}").owned_by("ReplicaSet", "rs").build() for i in range(2)]

    assert the_budget(budget(min_available="50%"), replica_set(4), *pods).allowed == 0


def test_only_healthy_pods_count() -> None:
    """A pod that is not ready or is going does not serve; one that was only written down does."""
    pods = [web("written").build(), ready(web("ready").build(), "True")]
    pods += [ready(web("unready").build(), "False"), web("going").terminating().build()]

    assert the_budget(budget(min_available=1), *pods).healthy == 2


def test_a_pod_that_says_nothing_is_taken_for_ready() -> None:
    """No status, no conditions and an empty list of them say the same: nobody has looked."""
    pod = make_pod("a").build()
    for status in (None, PodStatus(), PodStatus(conditions=[])):
        assert may_be_ready(replace(pod, status=status))
    assert not may_be_ready(ready(pod, "False"))


def test_other_pods_do_not_count() -> None:
    """Pods with other labels or in other namespaces do not count for a budget."""
    others = (
        make_pod("db").labels(app="db").on("n1").build(),
        web("far").namespace("shop").build(),
    )

    assert the_budget(budget(min_available=1), *others).pods == 0


def test_the_status_is_believed() -> None:
    """What the disruption controller has counted is taken as it is."""
    status = PodDisruptionBudgetStatus(disruptions_allowed=2, current_healthy=5, desired_healthy=3)
    found = the_budget(budget(min_available=1, status=status), web("w1").build())

    assert (found.allowed, found.healthy, found.desired, found.computed) == (2, 5, 3, False)


# --- evictions ----------------------------------------------------------------------------


def counted(
    allowed: int, *, name: str = "keep", healthy: int = 1, desired: int = 1, lenient: bool = False
) -> DisruptionBudget:
    return DisruptionBudget(
        namespace="default",
        name=name,
        selector=parse_label_selector(make_selector(app="web")),
        allowed=allowed,
        healthy=healthy,
        desired=desired,
        pods=1,
        computed=False,
        lenient=lenient,
    )


def test_every_eviction_takes_from_the_budget() -> None:
    """The second pod finds nothing left, a pod without a budget does not care."""
    keep = counted(1)
    allowed = AllowedDisruptions([keep])

    assert allowed.evict(entry(web("w1").build())) == ()
    assert allowed.evict(entry(web("w2").build())) == (keep,)
    assert allowed.evict(entry(make_pod("db").on("n1").build())) == ()


def test_two_budgets_refuse() -> None:
    """The API server does not choose between budgets, however much they allow."""
    both = (counted(5), counted(5, name="other"))

    assert AllowedDisruptions(both).evict(entry(web("w1").build())) == both


@pytest.mark.parametrize(
    ("keep", "goes"),
    [
        (counted(0, healthy=2, desired=2), True),
        (counted(0, healthy=1, desired=2), False),
        (counted(0, healthy=1, desired=2, lenient=True), True),
    ],
)
def test_a_pod_that_does_not_serve(keep: DisruptionBudget, goes: bool) -> None:
    """It may go if the others are enough, or if the budget says that such pods always may."""
    pod = ready(web("w1").build(), "False")

    assert (AllowedDisruptions([keep]).evict(entry(pod)) == ()) is goes


def test_a_pod_that_has_not_begun() -> None:
    """No budget counts a pod that is bound and still pending."""
    assert AllowedDisruptions([counted(0)]).evict(entry(web("w1").phase("Pending").build())) == ()


def test_jobs_have_no_replicas_to_measure_by() -> None:
    """A budget that needs their number lets nobody go, and says why; one with a plain number does."""
    shares = the_budget(budget(max_unavailable=1), of("Job", "p0"), of("Job", "p1"))
    assert (shares.allowed, shares.fault) == (0, "pods of a Job have no replicas that it could count")
    assert the_budget(budget(max_unavailable=1), of("StatefulSet", "p0")).fault is None
    plain = the_budget(budget(min_available=1), of("Job", "p0"), of("Job", "p1"))
    assert (plain.allowed, plain.fault) == (1, None)


def test_pods_without_an_owner_cannot_be_measured_by() -> None:
    """Nobody says how many of them there should be."""
    assert the_budget(budget(max_unavailable=1), web("p0").build()).allowed == 0
    assert the_budget(budget(min_available=0), web("p0").build()).allowed == 1


def of(kind: str, name: str) -> Pod:
    """A running pod that belongs to something of this kind."""
    pod = web(name).build()
    owner = OwnerReference(kind=kind, name="it", uid="it", controller=True)
    return replace(pod, metadata=replace(pod.metadata, owner_references=[owner]))
