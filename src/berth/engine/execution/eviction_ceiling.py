"""When so many pods would be evicted at once that somebody has probably made a mistake with labels.

More than a share of the pods of a topology domain, or of the cluster: then nobody is evicted there until
the labels are back or a person says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from berth.kube.well_known import ZONE

# The domain that all nodes are in; no label has this value.
CLUSTER = "*"
# Where a person says that evictions may go on, and how.
RELEASE_ANNOTATION = "berth.dev/release-evictions"

_NOBODY: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """How many pods may be evicted at once from a domain, or from the cluster.

    Attributes:
        domain_key: The node label that says which domain a node is in.
        max_share: Nobody is evicted from a domain while more than this share of its pods would go.
        halt_above: So few pods are never too many, whatever their share.
    """

    domain_key: str = ZONE
    max_share: float = 0.55
    halt_above: int = 5

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


@dataclass(frozen=True, slots=True)
class Halt:
    """How many pods of one domain would be evicted: where that is too many, nobody is.

    Attributes:
        going: Pods that would be evicted, or have just been.
        running: Pods in the domain, those that have just been evicted included.
    """

    domain: str
    going: int
    running: int

    @property
    def share(self) -> float:
        return self.going / self.running if self.running else 0.0

    def __str__(self) -> str:
        return f"{self.going} of {self.running} pods ({self.share:.0%}) would have to go"


def measured(
    going: Mapping[str, int], running: Mapping[str, int], gone: Mapping[str, int] = _NOBODY
) -> Iterator[Halt]:
    """How many would go from the cluster and from each domain.

    Args:
        going: Pods that would go, by the domain they are in; empty for none.
        running: All pods that run there.
        gone: Pods that have just gone.
    """
    if not going:
        return
    left = sum(gone.values())
    yield Halt(CLUSTER, sum(going.values()) + left, sum(running.values()) + left)
    for domain, count in going.items():
        if domain:
            before = gone.get(domain, 0)
            yield Halt(domain, count + before, running.get(domain, 0) + before)


def stopping(halts: Mapping[str, Halt], domain: str) -> Halt | None:
    """What keeps the pods of a domain from being evicted."""
    return halts.get(CLUSTER) or halts.get(domain)


def name_of(domain: str) -> str:
    return "the cluster" if domain == CLUSTER else f"domain {domain}"


def released_domains(text: str | None) -> frozenset[str]:
    """The domains an annotation names: a list with commas, `*` for all."""
    return frozenset(filter(None, (part.strip() for part in (text or "").split(","))))
