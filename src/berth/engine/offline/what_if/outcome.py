"""What a what-if found, as plain data and in a sentence: the same for the table, for `-o json` and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from berth.engine.offline.what_if.changes import ClusterChange, NodeDrain, NodeLoss
from berth.kube.text.words import count
from berth.kube.well_known import UNSCHEDULABLE


class _Data(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class _OfPod(_Data, frozen=True, kw_only=True):
    namespace: str
    pod: str
    owner: str | None


class PodMove(_OfPod, frozen=True, kw_only=True):
    """A pod that has another node than before, or one where it had none (`source` is None).

    Attributes:
        why: What put the node before the next.
        round: Of the drain, in which it goes, and `change`, the number of that drain.
        replaces: The pod whose place it takes in a rollout; `source` is the node of that one.
    """

    source: str | None = msgspec.field(name="from")
    source_zone: str | None = msgspec.field(name="fromZone")
    target: str = msgspec.field(name="to")
    target_zone: str | None = msgspec.field(name="toZone")
    why: str | None
    change: int | None = None
    round: int | None = None
    replaces: str | None = None

    @property
    def kind(self) -> str:
        if self.replaces is not None:
            return "replaced"
        return "new" if self.source is None else "moved"


class StrandedPod(_OfPod, frozen=True, kw_only=True):
    """A pod that has no node.

    Attributes:
        source: The node it was on before, if any.
        waited: It had none before either.
        help: The smallest change that would give it one, if one is known.
        details: The reasons as data, each with the number of nodes it keeps from the pod.
    """

    source: str | None = msgspec.field(name="from")
    reason: str = UNSCHEDULABLE
    message: str
    waited: bool = False
    help: str | None = None
    details: list[dict[str, Any]] = []


class GonePod(_OfPod, frozen=True, kw_only=True):
    """A pod that is no more; `lost` if nobody asked for it and nobody makes it again.

    `replaced_by` is the pod that takes its place in a rollout.
    """

    node: str | None
    why: str
    lost: bool
    replaced_by: str | None = None


class PreemptedPod(_OfPod, frozen=True, kw_only=True):
    node: str
    by: str
    lands_on: str | None


class ViolationDocument(_OfPod, frozen=True, kw_only=True):
    """A rule that a pod breaks where it runs; beside the words, the same as data."""

    node: str
    rule: str
    reason: str
    cause: str
    path: str | None
    hard: bool
    execution: bool
    of_peer: bool
    code: str
    topology: list[str | None] | None
    peers: list[str]
    workloads: list[dict[str, str]]
    values: dict[str, str]


class SkewState(_Data, frozen=True, kw_only=True):
    skew: int
    ok: bool
    counts: dict[str, int]


class SpreadChange(_Data, frozen=True, kw_only=True):
    """A spread constraint of a workload; None where nobody states it."""

    namespace: str
    owner: str
    rule: str
    topology_key: str
    hard: bool
    max_skew: int
    before: SkewState | None
    after: SkewState | None

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def worse(self) -> bool:
        """Whether a hard constraint that was kept is not any more."""
        kept = self.before is None or self.before.ok
        return self.hard and kept and self.after is not None and not self.after.ok


class BudgetChange(_Data, frozen=True, kw_only=True):
    """A disruption budget; `blocks` are the pods that it does not let go."""

    namespace: str
    name: str
    allowed_before: int | None
    allowed_after: int | None
    healthy_after: int | None
    desired: int
    blocks: list[str]


class EvictionRound(_Data, frozen=True, kw_only=True):
    """Pods that a drain evicts at once, because their budgets allow it."""

    change: int
    round: int
    pods: list[str]


class RolloutProgress(_Data, frozen=True, kw_only=True):
    """What a rollout does at once; `stuck` says why it goes no further."""

    change: int
    workload: str
    step: int
    created: list[str] = []
    removed: list[str] = []
    stuck: str | None = None


class RemainingPod(_OfPod, frozen=True, kw_only=True):
    """A pod that stays on a node that is drained; `budgets` if it is because of them.

    `refused` if it keeps drain from beginning at all, unless it is forced.
    """

    node: str
    why: str
    budgets: list[str]
    refused: bool = False


class LocalLoss(_OfPod, frozen=True, kw_only=True):
    """A pod that loses what is in its emptyDir volumes."""

    volumes: list[str]


class Utilisation(_Data, frozen=True, kw_only=True):
    """What is requested of a node or zone: millicores, bytes, pods."""

    cpu: int
    cpu_allocatable: int
    memory: int
    memory_allocatable: int
    pods: int
    pods_allocatable: int


class UtilisationChange(_Data, frozen=True, kw_only=True):
    name: str | None
    zone: str | None
    before: Utilisation | None
    after: Utilisation | None


class LargestPod(_Data, frozen=True, kw_only=True):
    """What the emptiest node that takes pods has left."""

    node: str
    cpu: int
    memory: int


class Measures(_Data, frozen=True, kw_only=True):
    """A cluster in numbers, for comparing two.

    Attributes:
        placed: Pods on nodes.
        moved: How many of them were elsewhere, or nowhere, before.
        fragmentation: The share of the free CPU that no single pod could use.
    """

    placed: int
    unplaced: int
    moved: int
    preempted: int
    mean_skew: float
    worst_skew: int
    nodes_used: int
    largest_pod: LargestPod | None
    fragmentation: float


class WhatIfOutcome(_Data, frozen=True, kw_only=True):
    """Everything about one what-if.

    Attributes:
        ok: Every pod has a node, every drain ends, and no hard rule is newly broken.
        concerned: How many pods had to leave a node, were made, or waited and do so no longer.
    """

    sentence: str
    ok: bool
    changes: list[str]
    concerned: int
    moves: list[PodMove]
    unplaced: list[StrandedPod]
    gone: list[GonePod]
    preempted: list[PreemptedPod]
    broken: list[ViolationDocument]
    healed: list[ViolationDocument]
    spread: list[SpreadChange]
    budgets: list[BudgetChange]
    rounds: list[EvictionRound]
    rollouts: list[RolloutProgress]
    stays: list[RemainingPod]
    local_storage: list[LocalLoss]
    nodes: list[UtilisationChange]
    zones: list[UtilisationChange]
    measures_before: Measures
    measures: Measures
    notes: list[str]

    @property
    def blocked(self) -> list[RemainingPod]:
        """Those that a budget keeps where they should leave."""
        return [stay for stay in self.stays if stay.budgets]

    @property
    def lost(self) -> int:
        """How many pods nobody makes again."""
        return sum(pod.lost for pod in self.gone)

    @property
    def last_round(self) -> int:
        return max((each.round for each in self.rounds), default=0)


# --- the answer in one sentence, as somebody would give it who was asked about just these changes ------


def sentence_of(found: WhatIfOutcome, changes: Sequence[ClusterChange]) -> str:
    """Whether it can be done, how many pods it concerns, and what is in the way."""
    problems, earlier = _problems(found), _earlier(found)
    if problems:
        return "; ".join([*problems, *earlier]) + "."
    good = _good(found, changes)
    return "; ".join([good.removesuffix("."), *earlier]) + "."


def _good(found: WhatIfOutcome, changes: Sequence[ClusterChange]) -> str:
    pods = count(found.concerned, "pod")
    each = "the pod lands" if found.concerned == 1 else f"all {found.concerned} pods land"
    if len(changes) == 1 and isinstance(change := changes[0], NodeLoss | NodeDrain):
        done = f"{change.target} can be {'lost' if isinstance(change, NodeLoss) else 'drained'}"
        if not found.concerned:
            return f"{done}: no pod has to move."
        rounds = found.last_round
        return f"{done}: {each} elsewhere{f', in {rounds} rounds' if rounds > 1 else ''}."
    if not found.concerned:
        gone = len(found.gone)
        what = f"{count(gone, 'pod')} {'is' if gone == 1 else 'are'} gone" if gone else "nothing moves"
        return f"every pod has a node, and {what}."
    moves = Counter(move.kind for move in found.moves)
    parts = [f"{moves[kind]} {kind}" for kind in ("moved", "replaced", "new") if moves[kind]]
    stay = ", each where it was" if found.concerned > 1 else ", where it was"
    where = f" ({', '.join(parts)})" if parts else stay
    verb = "has" if found.concerned == 1 else "have"
    return f"all is well: {f'all {pods}' if found.concerned > 1 else pods} {verb} a node{where}."


def _problems(found: WhatIfOutcome) -> list[str]:
    problems = []
    stranded = [pod for pod in found.unplaced if not pod.waited]
    if stranded:
        who = f"{len(stranded)} of {count(found.concerned, 'pod')}"
        problems.append(f"{who} would find no node: {_reason(stranded)}")
    if lost := found.lost:
        them = "it" if lost == 1 else "them"
        problems.append(f"{count(lost, 'pod')} would be lost, since nobody makes {them} again")
    if found.blocked:
        names = sorted({name for stay in found.blocked for name in stay.budgets})
        verb = "stays" if len(found.blocked) == 1 else "stay"
        which = f"{'budget' if len(names) == 1 else 'budgets'} {', '.join(names)}"
        problems.append(f"{count(len(found.blocked), 'pod')} {verb}, held by {which}")
    if refused := sum(stay.refused for stay in found.stays):
        whose = "has" if refused == 1 else "have"
        problems.append(
            f"drain would refuse to begin without --force: {count(refused, 'pod')} {whose} no owner"
        )
    hard = [rule for rule in found.broken if rule.hard]
    if hard:
        pods = len({(rule.namespace, rule.pod) for rule in hard})
        rules = ", ".join(sorted({rule.rule for rule in hard}))
        problems.append(f"{count(pods, 'pod')} would break a hard rule ({rules})")
    uneven = [spread for spread in found.spread if spread.worse]
    if uneven and not any(rule.rule == uneven[0].rule for rule in hard):
        first = uneven[0]
        skew = first.after.skew if first.after else 0
        problems.append(f"{first.owner} would be uneven over {first.topology_key} (skew {skew})")
    return problems


def _earlier(found: WhatIfOutcome) -> list[str]:
    """About those that are no worse off than before."""
    waiting = [pod for pod in found.unplaced if pod.waited]
    if not waiting:
        return []
    verb = "has" if len(waiting) == 1 else "have"
    return [f"{count(len(waiting), 'pod')} had no node before and {verb} none now: {_reason(waiting)}"]


def _reason(unplaced: Sequence[StrandedPod]) -> str:
    """The message that most of them have."""
    messages = Counter(pod.message.rstrip(".") for pod in unplaced)
    message, number = messages.most_common(1)[0]
    return message if number == len(unplaced) else f"{message} ({number} of them)"
