"""What a rule says: of a node or of many, of running pods, or of a pod as a whole; and why, as data.

A rule declares its reasons (`Rule.reasons`); a `Cause` is one that was met, with the values that are in the
way.  The causes of many nodes are told in one sentence: figures become ranges, names become lists, and peers
become the workloads they belong to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent
from berth.engine.state.columns import IndexArray
from berth.kube.amounts.quantity import QuantityError, parse
from berth.kube.selectors import MATCHES_NOTHING, NodeTerms
from berth.kube.well_known import UNSCHEDULABLE

UNRESOLVABLE = "UnschedulableAndUnresolvable"
SUCCESS, SKIP, ERROR = "Success", "Skip", "Error"
NODE, AFFINITY, ANTI_AFFINITY, SPREAD = "node", "affinity", "anti-affinity", "spread"

MOST_PEERS = 10
_PEERS_SHOWN = 3
_VALUES_SHOWN = 3
_OTHERS = "…"

# The workload that a pod, ``namespace/name``, belongs to, as sentences call it; None if to none.
WorkloadOf = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Reason:
    """Something that a rule may refuse a node for.

    Attributes:
        code: A name that programs may rely on.
        sentence: kube-scheduler's; empty if it is another each time.
        form: The same more exactly, with holes for values and `{peers}`; empty if there is nothing to add.
        plural: The same of peers on several nodes, if that is said otherwise.
        varies: The values that may differ between nodes that are refused for the same reason.
        waits_for: What a pod waits for that is refused for it, with the same holes.
        events: What has to happen for that.
        resolvable: Whether it may help to evict other pods.
    """

    code: str
    sentence: str
    form: str = ""
    plural: str = ""
    varies: tuple[str, ...] = ()
    waits_for: str = ""
    events: tuple[type[ClusterEvent], ...] = ()
    resolvable: bool = False

    @property
    def verdict_code(self) -> str:
        return UNSCHEDULABLE if self.resolvable else UNRESOLVABLE


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason that was met: what stands in the way on one node, or of one running pod.

    Attributes:
        values: What fills the holes of the form.
        path: Where the rule stands in the pod, None if it does not.
        execution: The rule must hold while the pod runs, not only when it is placed.
        of_peer: It is the rule of the peers, which do not want this pod near; `path` is there.
        topology: Key and value of the domain, for rules about pods; no value if the node has no such label.
        peers: The pods it is about, sorted; only the first, if they are many.
        elsewhere: The pod is for another node by its name, and this one never will be that.
        said: kube-scheduler's sentence, for a reason that has none of its own.
        worded: Our words, where those of the reason do not do.
    """

    reason: Reason
    values: Mapping[str, str] = field(default_factory=dict, hash=False)
    path: str | None = None
    execution: bool = field(default=False, kw_only=True)
    of_peer: bool = field(default=False, kw_only=True)
    topology: tuple[str, str] | None = field(default=None, kw_only=True)
    peers: tuple[str, ...] = field(default=(), kw_only=True)
    elsewhere: bool = field(default=False, kw_only=True)
    said: str = field(default="", kw_only=True)
    worded: str = field(default="", kw_only=True)

    @property
    def code(self) -> str:
        return self.reason.code

    @property
    def sentence(self) -> str:
        return self.said or self.reason.sentence

    @property
    def form(self) -> str:
        return self.worded or self.reason.form

    def __str__(self) -> str:
        return self.words()

    def words(self, workload_of: WorkloadOf | None = None) -> str:
        """What stands in the way; kube-scheduler's sentence if there is nothing to add to it."""
        if not self.form:
            return self.sentence
        return self.form.format_map({**self.values, "peers": _named(self.peers, workload_of)})

    @property
    def likeness(self) -> Hashable:
        """Equal for causes that are the same on several nodes, but for what varies."""
        reason = self.reason
        told = tuple((name, value) for name, value in self.values.items() if name not in reason.varies)
        return reason.code, self.said, self.path, self.worded, told


def words_of(causes: Sequence[Cause], workload_of: WorkloadOf) -> str:
    """One sentence for causes with one reason, each of another node."""
    if len(causes) == 1:
        return causes[0].words(workload_of)
    forms = Counter(cause.form for cause in causes)
    form, _ = forms.most_common(1)[0]
    alike = [cause for cause in causes if cause.form == form]
    if not form:
        return _listed(list(dict.fromkeys(cause.sentence for cause in causes)), "and")
    if form == alike[0].reason.form and not _one_pod(alike, workload_of):
        form = alike[0].reason.plural or form
    values = {name: merged(cause.values[name] for cause in alike) for name in alike[0].values}
    if len({cause.topology for cause in alike}) > _VALUES_SHOWN:
        values["domain"] = _OTHERS
    return form.format_map({**values, "peers": _grouped(alike, workload_of)})


def waiting_words(causes: Sequence[Cause], workload_of: WorkloadOf) -> str:
    """What a pod waits for that is refused for these causes, all with one reason; empty if nobody can say."""
    first = causes[0]
    values = {name: merged(cause.values.get(name, "") for cause in causes) for name in first.values}
    if values.get("wanted") == MATCHES_NOTHING:
        return ""  # no node that comes can be the one
    return first.reason.waits_for.format_map({**values, "peers": _grouped(causes, workload_of)})


def merged(values: Iterable[str]) -> str:
    """One value for many: a range of figures, or what they have in common."""
    words = sorted(set(values))
    if len(words) == 1:
        return words[0]
    try:
        ranked = sorted(words, key=parse)
    except QuantityError:
        pass
    else:
        return f"{ranked[0]} to {ranked[-1]}"
    keys = {word.rpartition("=")[0] for word in words}
    key = f"{keys.pop()}=" if len(keys) == 1 and "" not in keys else ""
    if len(words) <= _VALUES_SHOWN:
        return key + _listed([word.removeprefix(key) for word in words], "or")
    return f"{key}{_OTHERS}" if key else _listed(words, "or")


def _listed(words: Sequence[str], conjunction: str, *, every: bool = True) -> str:
    """``a, b and c``; of many, the first and how many more there are, if these are all."""
    if len(words) > _VALUES_SHOWN:
        left = f"{len(words) - _VALUES_SHOWN + 1} more" if every else "others"
        return f"{', '.join(words[: _VALUES_SHOWN - 1])} {conjunction} {left}"
    return f" {conjunction} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _named(peers: Sequence[str], workload_of: WorkloadOf | None) -> str:
    """The first of these pods, and whose they are, if they are all of one workload."""
    if not peers:
        return ""
    shown = ", ".join(peers[:_PEERS_SHOWN])
    more = " and others" if len(peers) > _PEERS_SHOWN else ""
    owners = {workload_of(peer) for peer in peers} if workload_of else {None}
    owner = owners.pop() if len(owners) == 1 else None
    return f"pod {shown}{more}{f' of {owner}' if owner else ''}"


def _one_pod(causes: Sequence[Cause], workload_of: WorkloadOf) -> bool:
    """Whether a single pod of no workload is in the way on all these nodes, as one may be in a zone."""
    peers = {peer for cause in causes for peer in cause.peers}
    return len(peers) == 1 and not workload_of(next(iter(peers)))


def _grouped(causes: Sequence[Cause], workload_of: WorkloadOf) -> str:
    """The workloads, and pods without one, that are in the way on several nodes; the commonest first."""
    owners: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    # A cause with as many peers as one may have stands for nobody knows how many.
    every = all(len(cause.peers) < MOST_PEERS for cause in causes)
    for peer in (peer for cause in causes for peer in cause.peers):
        owner = workload_of(peer)
        (owners if owner else alone)[owner or peer] += 1
    names = [name for name, _ in owners.most_common()]
    named = [f"pods of {_listed(names, 'and', every=every)}"] if owners else []
    if alone:
        named.append(f"pod{'s' if len(alone) > 1 else ''} {_listed(sorted(alone), 'and', every=every)}")
    return " and ".join(named)


def found_label(labels: Mapping[str, str], key: str) -> str:
    return f"{key}={labels[key]}" if key in labels else f"no label {key}"


def found_labels(selector: NodeTerms, labels: Mapping[str, str]) -> str:
    """What a node with these labels has of those that a node selector looks at."""
    keys = dict.fromkeys(requirement.key for term in selector.terms for requirement in term.labels)
    return ", ".join(found_label(labels, key) for key in keys)


# --- verdicts and violations ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Why a rule refuses a node.

    Attributes:
        code: UNRESOLVABLE if evicting other pods could not help.
        reasons: kube-scheduler's sentences.
    """

    rule: str
    code: str
    reasons: tuple[str, ...]
    because: tuple[Cause, ...] = ()

    @classmethod
    def of(cls, rule: str, causes: Iterable[Cause]) -> RuleVerdict | None:
        """The verdict for some causes, each of which has a sentence of kube-scheduler's; None without any."""
        because = tuple(causes)
        if not because:
            return None
        resolvable = all(cause.reason.resolvable for cause in because)
        reasons = tuple(dict.fromkeys(cause.sentence for cause in because))
        return cls(rule, UNSCHEDULABLE if resolvable else UNRESOLVABLE, reasons, because)

    @property
    def causes(self) -> tuple[str, ...]:
        """What stands in the way in our words, where they say more than kube-scheduler's."""
        return tuple(str(cause) for cause in self.because if cause.form)


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One thing that is wrong with a pod on a node: what a `RuleVerdict` sums up, in full.

    Attributes:
        hard: False for a cordon or a NoSchedule taint, which running pods need not mind.
        pod: The running pod, ``namespace/name``, and `node`, its node; empty for a pod that is to be placed.
        kind: What an execution-time rule is about: NODE, AFFINITY or ANTI_AFFINITY.
    """

    rule: str
    because: Cause
    hard: bool = True
    pod: str = ""
    node: str = ""
    kind: str = ""

    @classmethod
    def of_pod(cls, rule: str, because: Cause, cluster: Cluster, pod: int, kind: str) -> RuleViolation:
        """What a running pod breaks where it runs."""
        node = cluster.nodes.names[cluster.pods.node.item(pod)] or ""
        return cls(rule, because, pod=cluster.pods.keys[pod] or "", node=node, kind=kind)

    @property
    def reason(self) -> str:
        """kube-scheduler's sentence."""
        return self.because.sentence

    @property
    def cause(self) -> str:
        """What broke it, in one clause."""
        return str(self.because)

    @property
    def path(self) -> str | None:
        return self.because.path

    @property
    def execution(self) -> bool:
        return self.because.execution

    @property
    def about_peers(self) -> bool:
        """Whether an execution-time rule looks at other pods, not at the node alone."""
        return self.kind != NODE

    @property
    def lacks_peers(self) -> bool:
        """Whether the pod is not with those that it must be with; they are given time to come."""
        return self.kind == AFFINITY

    @property
    def has_unwanted_peers(self) -> bool:
        return self.kind == ANTI_AFFINITY

    @property
    def of_peer(self) -> bool:
        return self.because.of_peer

    @property
    def topology(self) -> tuple[str, str] | None:
        return self.because.topology

    @property
    def peers(self) -> tuple[str, ...]:
        return self.because.peers


# What each pod breaks; a pod is its number in the pod table.
OwnViolations = Mapping[int, Sequence[RuleViolation]]


@dataclass(slots=True)
class PeerConflict:
    """Pods with one term in one domain, and all the pods that must not be with them there."""

    violations: list[RuleViolation]
    owners: set[int]
    peers: set[int]


@dataclass(slots=True)
class FirstOfGroup:
    """A pod that may stay where it is as the first of its group, if these others go."""

    pod: int
    others: set[int]
    violations: list[RuleViolation]


@dataclass(frozen=True, slots=True, eq=False)
class SharedVerdict:
    """The nodes, possibly none, that a rule refuses for the same reasons: a `RuleVerdict` for all."""

    slots: IndexArray
    code: str
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, slots: IndexArray, reason: Reason) -> SharedVerdict:
        return cls(slots, reason.verdict_code, (reason.sentence,))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedDomains:
    """The pods that one constraint is about, domain by domain.

    Attributes:
        hard: Whether nodes are refused where it does not hold.
        counts: Domain -> matching pods, over the domains the constraint counts.
        left_out: Asked, it says which nodes are not counted: why -> their slots.
    """

    path: str
    topology_key: str
    selector: str
    hard: bool
    counts: dict[str, int]
    left_out: Callable[[], dict[str, IndexArray]] = field(default=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintCounts(CountedDomains):
    """How even the pods are that one constraint is about.

    Attributes:
        constraint: Equal for equal constraints.
        minimum: What the skew is measured from; 0 while there are fewer domains than `minDomains`.
        counts_own: Whether the pods that have the constraint are among those it counts.
    """

    kind: ClassVar[str] = SPREAD
    rule: str
    constraint: Hashable
    when_unsatisfiable: str
    max_skew: int
    minimum: int
    counts_own: bool = True

    @property
    def limit(self) -> int:
        return self.max_skew

    @property
    def skew(self) -> int:
        return max(self.counts.values(), default=0) - self.minimum

    @property
    def ok(self) -> bool:
        return self.skew <= self.max_skew

    @property
    def broken(self) -> set[str]:
        """The domains that are too far above the emptiest."""
        return {name for name, number in self.counts.items() if number - self.minimum > self.max_skew}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersKeptAway(CountedDomains):
    """The pods that one anti-affinity term of some running pods keeps out of their domains.

    Where one of those is with another that its term is about, the domain is `broken`.
    """

    kind: ClassVar[str] = ANTI_AFFINITY
    limit: ClassVar[int] = 1
    broken: set[str]

    @property
    def skew(self) -> int:
        fullest = max((self.counts[name] for name in self.broken), default=0)
        return fullest or min(1, max(self.counts.values(), default=0))


@dataclass(frozen=True, slots=True)
class StepStatus:
    """The outcome of a step that concerns the pod as a whole."""

    code: str = SUCCESS
    reasons: tuple[str, ...] = ()
    node_names: tuple[str, ...] | None = None


PROCEED = StepStatus()
SKIPPED = StepStatus(SKIP)
