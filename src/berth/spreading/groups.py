"""Which pods belong to which ReplicaSet, whose order a change may alter, and where replacements went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from berth.engine.execution.rebalancing import Rebalance
from berth.engine.execution.removal_order import counted_selectors, has_order
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Key, Pod
from berth.kube.ownership import controller_of
from berth.kube.selectors import Selector
from berth.machines.contract import expect
from berth.machines.rates import Backoff, Recent, ReturnMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadingSettings:
    """How groups are kept spread; times in seconds."""

    # How the rules are read; the gate KeepSpread switches this off: costs are then taken back.
    options: Options = field(default_factory=Options)
    settle: float = 0.3  # changes are gathered for so long before a group is ranked
    # What workloads may be moved for that say nothing about it themselves.
    rebalance: Rebalance = field(default_factory=Rebalance)
    rebalance_delay: float = 30.0  # a node that came or changed is trusted with replacements after so long
    dry_run: bool = False  # only tell what would be done

    @property
    def enabled(self) -> bool:
        return self.options.gates.keep_spread


_MOST_KNOWN = 4096  # sets of labels whose groups are remembered


@dataclass(slots=True)
class SpreadReplicaSet:
    """A ReplicaSet whose pods are spread."""

    key: Key
    uid: str
    # Those on nodes, in the order in which they were seen.
    pods: dict[Key, None] = field(default_factory=dict)
    selectors: tuple[Selector, ...] = ()  # of what its constraints count, in its own namespace

    def concerns(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.key[0] and any(selector.matches(labels) for selector in self.selectors)


class SpreadGroups:
    """The groups, by the key of their ReplicaSet."""

    def __init__(self) -> None:
        self.by_key: dict[Key, SpreadReplicaSet] = {}
        self._of_pod: dict[Key, Key] = {}
        self._concerned: Recent[tuple[str, frozenset[tuple[str, str]]], tuple[Key, ...]] = Recent(_MOST_KNOWN)

    def put(self, key: Key, pod: Pod, pod_class: PodClass) -> None:
        """A pod is on a node."""
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "ReplicaSet" or not has_order(pod_class):
            self.drop(key)
            return
        group_key = (key[0], owner.name or "")
        group = self.by_key.get(group_key)
        if group is None or group.uid != owner.uid:
            group = self.by_key[group_key] = SpreadReplicaSet(
                group_key, owner.uid or "", selectors=counted_selectors(pod_class)
            )
            self._concerned.clear()
        group.pods[key] = None
        self._of_pod[key] = group_key

    def drop(self, key: Key) -> None:
        """A pod is no longer on a node."""
        group_key = self._of_pod.pop(key, None)
        group = self.by_key.get(group_key) if group_key is not None else None
        if group is None:
            return
        group.pods.pop(key, None)
        if not group.pods:
            del self.by_key[group.key]
            self._concerned.clear()

    def validate(self) -> None:
        """Check that every group has pods, which know it."""
        for key, group in self.by_key.items():
            expect(group.pods, "a group without pods was not forgotten", key)
            expect(all(self._of_pod.get(pod) == key for pod in group.pods), "its pods are elsewhere", key)

    def of(self, pod: Key) -> SpreadReplicaSet | None:
        key = self._of_pod.get(pod)
        return self.by_key.get(key) if key is not None else None

    def concerned(self, namespace: str, labels: Mapping[str, str]) -> tuple[Key, ...]:
        """The groups whose constraints count pods with these labels."""
        known = (namespace, frozenset(labels.items()))
        found = self._concerned.get(known)
        if found is None:
            found = tuple(key for key, group in self.by_key.items() if group.concerns(namespace, labels))
            self._concerned[known] = found
        return found


# --- where replacements went ------------------------------------------------------------------------
# A replacement that did no good keeps its workload where it is, longer each time: so nobody moves in circles.

RETURNS = Backoff(first=60.0, longest=6 * 3600.0)


@dataclass(slots=True)
class ReplacementMemory(ReturnMemory):
    """On which nodes the replacements of a workload's moved pods landed, and how often that did not help."""

    _replacements: Recent[str, str] = field(default_factory=lambda: Recent(100))  # pod -> node

    def keep(self, replacements: dict[str, str], now: float) -> None:
        """Remember replacements that landed where it helps."""
        self._replacements.update(replacements)
        self.moved = now

    def notice_lost(self, node: str | None, bound: Callable[[str], Pod | None], now: float) -> None:
        """Back off if an earlier replacement on this node is no longer there; `bound` finds pods by name.

        All that are not where they landed are forgotten with it: a zone that is lost counts once.
        """
        lost = {
            name: chosen
            for name, chosen in self._replacements.items()
            if (pod := bound(name)) is None or pod.spec.node_name != chosen
        }
        if node in lost.values():
            for name in lost:
                del self._replacements[name]
            self.back_off(now)
