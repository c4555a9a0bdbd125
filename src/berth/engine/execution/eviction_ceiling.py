"""When so many pods would be evicted at once that somebody has probably made a mistake with labels.

More than a share of the pods of a topology domain, or of the cluster: then the domain is halted until the
labels are back or a person says otherwise.  A tenant who moves to other nodes looks the same at first, but
has a node for every pod.  So in a halted domain a pod still goes if it is replaced and there is a node for
that; one at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from berth.kube.objects import ObjectMeta
from berth.kube.ownership import controller_of
from berth.kube.well_known import ZONE

# The domain that all nodes are in; no label has this value.
CLUSTER = "*"

_NOBODY: Mapping[str, int] = {}
# Their pods belong to nodes, one each: no replacement can be anywhere else.
TIED_TO_NODES = frozenset({"DaemonSet", "Node"})


class HaltPolicy(Enum):
    """What happens in a halted domain: those with a place go on one by one, or nobody does."""

    ONE_BY_ONE = "one-by-one"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """How many pods may be evicted at once from a domain, or from the cluster.

    Attributes:
        domain_key: The node label that says which domain a node is in.
        max_share: A domain is halted while more than this share of its pods would go.
        halt_above: So few pods are never too many, whatever their share.
        policy: Which pods may still go from a halted domain.
    """

    domain_key: str = ZONE
    max_share: float = 0.55
    halt_above: int = 5
    policy: HaltPolicy = HaltPolicy.ONE_BY_ONE

    def exceeded(self, measured: Iterable[Halt], released: Collection[str] = ()) -> dict[str, Halt]:
        """By domain, those where too many would go; not those that a person has released."""
        return {
            halt.domain: halt
            for halt in measured
            if halt.share > self.max_share
            and halt.going > self.halt_above
            and halt.domain not in released
            and CLUSTER not in released
        }

    def allows(self, metadata: ObjectMeta, replacement: str | None) -> bool:
        """Whether a pod may go from a halted domain: it is replaced, and there is a node for that."""
        return self.policy is HaltPolicy.ONE_BY_ONE and replacement is not None and is_replaced(metadata)


@dataclass(frozen=True, slots=True)
class Halt:
    """How many pods of one domain would be evicted: where that is too many, they go one by one or not at all.

    Attributes:
        going: Pods that would be evicted, or have just been.
        running: Pods in the domain, those that have just been evicted included.
        one_by_one: Of those that are yet to go, how many have a place and go one by one.
        staying: And how many stay.
    """

    domain: str
    going: int
    running: int
    one_by_one: int = 0
    staying: int = 0

    @property
    def share(self) -> float:
        return self.going / self.running if self.running else 0.0

    def __str__(self) -> str:
        return f"{self.going} of {self.running} pods ({self.share:.0%}) would have to go"

    @property
    def outlook(self) -> str:
        """Which pods go from the halted domain, and which stay, as a sentence."""
        if not self.one_by_one:
            return "nobody goes"
        stay = f", {self.staying} without one stay" if self.staying else ""
        return f"{self.one_by_one} with a node for their replacement go one by one{stay}"


def measured(
    going: Mapping[str, int], running: Mapping[str, int], gone: Mapping[str, int] = _NOBODY
) -> Iterator[Halt]:
    """How many would go from the cluster and from each domain, those that have just `gone` included.

    All are counted by the domain they are in; it is empty for those in none.
    """
    if not going:
        return
    left = sum(gone.values())
    yield Halt(CLUSTER, sum(going.values()) + left, sum(running.values()) + left)
    for domain, count in going.items():
        if domain:
            before = gone.get(domain, 0)
            yield Halt(domain, count + before, running.get(domain, 0) + before)


def counted_halts(
    halts: Mapping[str, Halt], one_by_one: Mapping[str, int], staying: Mapping[str, int]
) -> dict[str, Halt]:
    """The halts, with how many pods by domain may move all the same, and how many may not."""

    def within(numbers: Mapping[str, int], halted: str) -> int:
        return sum(number for domain, number in numbers.items() if is_in(domain, halted))

    return {
        domain: replace(halt, one_by_one=within(one_by_one, domain), staying=within(staying, domain))
        for domain, halt in halts.items()
    }


def stopping(halts: Mapping[str, Halt], domain: str) -> Halt | None:
    """The halt that the pods of a domain are under."""
    return halts.get(CLUSTER) or halts.get(domain)


def is_in(domain: str, halted: str) -> bool:
    """Whether a halt of one domain, or of the cluster, is about the pods of another."""
    return halted in (CLUSTER, domain)


def is_replaced(metadata: ObjectMeta) -> bool:
    """Whether somebody makes a pod anew that goes, and not for the same node."""
    owner = controller_of(metadata)
    return owner is not None and bool(owner.uid) and owner.kind not in TIED_TO_NODES


def name_of(domain: str) -> str:
    return "the cluster" if domain == CLUSTER else f"domain {domain}"


def released_domains(text: str | None) -> frozenset[str]:
    """The domains an annotation names: a list with commas, `*` for all."""
    return frozenset(filter(None, (part.strip() for part in (text or "").split(","))))
