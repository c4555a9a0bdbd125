"""Preemption: which pods have to go, and from where, so that a pod of higher priority can run."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from berth.kube.objects import Node, Pod, PodDisruptionBudget
from berth.kube.selectors import parse_label_selector
from tests.reference.scheduler import find_feasible
from tests.reference.verdicts import SKIP, SUCCESS, UNSCHEDULABLE, Result, Status
from tests.reference.world import World, labels_of, name_of, namespace_of

NO_VICTIMS = Status("UnschedulableAndUnresolvable", ("No preemption victims found for incoming pod",))
NOT_HELPFUL = Status("UnschedulableAndUnresolvable", ("Preemption is not helpful for scheduling",))


@dataclass(frozen=True)
class Decision:
    node: str | None
    victims: tuple[str, ...] = ()  # the least important first
    violations: int = 0
    message: str = ""


@dataclass(frozen=True)
class Preemptor:
    """The pod that wants to run, and what is known besides the world."""

    pod: Pod
    budgets: Sequence[PodDisruptionBudget]
    started: Callable[[str], float]
    nominated_node: str | None = None

    def outranks(self, other: Pod) -> bool:
        return priority_of(other) < priority_of(self.pod)

    def importance(self, pod: Pod) -> tuple[int, float, str]:
        """Sorts the most important first."""
        return -priority_of(pod), self.started(key_of(pod)), key_of(pod)


def preempt(world: World, preemptor: Preemptor) -> Decision:
    """The nodes are tried one by one, in a world of which the victims were removed."""
    pod = preemptor.pod
    if pod.spec.preemption_policy == "Never":
        return Decision(None, message="preemption: not eligible due to preemptionPolicy=Never.")
    statuses = {name_of(node): NOT_HELPFUL for node in world.nodes}
    candidates = []
    for node in world.nodes:
        status = status_on(world, pod, node)
        if status is None or status.code != UNSCHEDULABLE:
            continue
        if name_of(node) == preemptor.nominated_node and any(
            preemptor.outranks(other) and other.metadata.deletion_timestamp for other in world.pods_on(node)
        ):
            message = "preemption: not eligible due to a terminating pod on the nominated node."
            return Decision(None, message=message)
        victims = select_victims(world, preemptor, node)
        if isinstance(victims, Status):
            statuses[name_of(node)] = victims
        else:
            candidates.append((cost(preemptor, *victims), node, victims))
    if not candidates:
        return Decision(None, message=f"preemption: {sentence(statuses)}")
    _, node, (found, violations) = min(candidates, key=lambda candidate: candidate[0])
    return Decision(name_of(node), tuple(key_of(victim) for victim in reversed(found)), violations)


def status_on(world: World, pod: Pod, node: Node) -> Status | None:
    """The first rule's objection to the node."""
    result = Result()
    find_feasible(world, world.admitted(pod), result)
    for status in result.prefilter.values():
        if status.code not in (SUCCESS, SKIP):
            return status
    return next(iter(result.filter.get(name_of(node), {}).values()), None)


def select_victims(world: World, preemptor: Preemptor, node: Node) -> tuple[list[Pod], int] | Status:
    """The pods that must go, most important first, and how many of them break a budget."""
    lesser = [p for p in world.pods_on(node) if preemptor.outranks(p)]
    if not lesser:
        return NO_VICTIMS
    lesser.sort(key=preemptor.importance)
    status = status_on(without(world, node, lesser), preemptor.pod, node)
    if status is not None:
        return status
    breaking = breaking_budgets(lesser, preemptor.budgets)
    victims = list(lesser)
    for pod in (*breaking, *(pod for pod in lesser if pod not in breaking)):
        fewer = [victim for victim in victims if victim is not pod]
        if status_on(without(world, node, fewer), preemptor.pod, node) is None:
            victims = fewer
    return victims, sum(victim in breaking for victim in victims)


def without(world: World, node: Node, victims: list[Pod]) -> World:
    smaller = copy.copy(world)
    stay = [pod for pod in world.pods_on(node) if pod not in victims]
    smaller.pods = {**world.pods, name_of(node): stay}
    return smaller


def breaking_budgets(pods: list[Pod], budgets: Sequence[PodDisruptionBudget]) -> list[Pod]:
    """The pods for which a budget has nothing left, were all to go in this order."""
    breaking = []
    left = [(budget.status and budget.status.disruptions_allowed) or 0 for budget in budgets]
    for pod in pods:
        breaks = False
        for i, budget in enumerate(budgets):
            if protects(budget, pod):
                left[i] -= 1
                breaks |= left[i] < 0
        if breaks:
            breaking.append(pod)
    return breaking


def protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = parse_label_selector(budget.spec.selector)
    disrupted = (budget.status and budget.status.disrupted_pods) or {}
    if budget.metadata.namespace != namespace_of(pod) or name_of(pod) in disrupted:
        return False
    return bool(labels_of(pod)) and not selector.everything and selector.matches(labels_of(pod))


def cost(preemptor: Preemptor, victims: list[Pod], violations: int) -> tuple[float, ...]:
    highest = max(map(priority_of, victims))
    return (
        violations,
        highest,
        sum(priority_of(victim) + 2**31 for victim in victims),
        len(victims),
        -min(preemptor.started(key_of(victim)) for victim in victims if priority_of(victim) == highest),
    )


def sentence(statuses: dict[str, Status]) -> str:
    counts = Counter(reason for status in statuses.values() for reason in status.reasons)
    entries = sorted(f"{number} {reason}" for reason, number in counts.items())
    return f"0/{len(statuses)} nodes are available: {', '.join(entries)}."


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


def key_of(pod: Pod) -> str:
    return f"{namespace_of(pod)}/{name_of(pod)}"
