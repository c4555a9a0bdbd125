"""Volumes: a pod can only run where its claims are bound to, or can be bound.

A bound claim needs a node that its volume is reachable from.  A claim that waits for its first consumer
needs a volume that is available there (the smallest that is large enough), or a storage class that can
make one for the node.  Any other unbound claim makes the pod wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.node_affinity.matching import match_terms
from berth.engine.rules.relaxing import Question
from berth.engine.rules.verdicts import (
    PROCEED,
    UNRESOLVABLE,
    RuleVerdict,
    SharedVerdict,
    StepStatus,
)
from berth.engine.rules.volume_binding import clues
from berth.engine.state.arrays import BoolArray, IndexArray, Slots
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated, VolumesChanged
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.needs import Needs, Offer
from berth.engine.state.volumes.objects import ClaimRecord, VolumeRecord
from berth.kube.selectors import NodeTerms

REASON_NODE = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND = "node(s) didn't find available persistent volumes to bind"
REASON_NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

# Bits of the reasons to refuse a node, with their sentences in upstream's order.
_OTHER_NODE, _UNSERVED, _NO_VOLUME, _REFUSED = 1, 2, 4, 8
_REASONS = {_OTHER_NODE: REASON_NODE, _UNSERVED: REASON_BIND, _NO_VOLUME: REASON_NO_VOLUME}

# Up to so many nodes are asked one by one; for more, every node is.
_FEW = 4


class VolumeBinding(NodeRule):
    name = "VolumeBinding"
    path = "spec.volumes"
    recorded = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._needs: Needs = cluster.volumes.needs_of(pod_class)
        refusal = self._needs.refusal
        self.prefilter = PROCEED if refusal is None else StepStatus(UNRESOLVABLE, (refusal,))

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return cluster.volumes.concerns(pod_class)

    def clues(self, question: Question) -> Iterable[str]:
        return clues.clues(question, self._needs)

    # --- many nodes ------------------------------------------------------------------------

    def feasible(self, slots: Slots) -> BoolArray:
        if not isinstance(slots, slice) and len(slots) <= _FEW:
            return np.array([self.verdict(int(slot)) is None for slot in slots], dtype=np.bool_)
        return np.asarray(self._reason_bits() == 0, dtype=np.bool_)[slots] & self.nodes.alive[slots]

    def _reason_bits(self) -> IndexArray:
        """For every node one bit for each reason to refuse it."""
        count, needs = self.nodes.count, self._needs
        if needs.refusal is not None:
            return np.full(count, _REFUSED, dtype=np.intp)
        bits = np.zeros(count, dtype=np.intp)
        for _, volume in needs.bound:
            # Upstream goes from claim to claim and stops at the first that is in the way.
            passed = bits == 0
            if volume is None:
                bits[passed] = _NO_VOLUME
            elif volume.nodes is not None:
                bits[passed & ~self._mask([volume.nodes])] = _OTHER_NODE
        if needs.offers:
            bits[~self._served()] |= _UNSERVED
        return bits

    def _served(self) -> BoolArray:
        """The nodes on which every unbound claim gets a volume."""
        needs = self._needs
        if any(offer.node is not None for offer in needs.offers):
            return self._where_promised()
        if len(needs.offers) == 1:
            return self._mask([needs.terms[row] for row in _rows(needs.offers[0])])
        return self._by_kind()

    def _where_promised(self) -> BoolArray:
        there = np.zeros(self.nodes.count, dtype=np.bool_)
        for node in {offer.node for offer in self._needs.offers if offer.node is not None}:
            slot = self.nodes.slot_of.get(node)
            if slot is not None:
                reachable = self._needs.reachable(self.nodes.labels[slot] or {}, node)
                there[slot] = self._needs.choose(reachable, node) is not None
        return there

    def _by_kind(self) -> BoolArray:
        """Try once for all nodes on which the same terms hold: the claims compete for volumes."""
        count, terms = self.nodes.count, self._needs.terms
        reachable = np.zeros((count, len(terms)), dtype=np.bool_)
        for row, wanted in enumerate(terms):
            reachable[slice(None) if wanted is None else self._places(wanted), row] = True
        packed = np.packbits(reachable, axis=1)
        kinds = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, examples, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
        passes = [self._needs.choose(reachable[example], None) is not None for example in examples]
        served: BoolArray = np.array(passes, dtype=np.bool_)[kind_of]
        return served

    def _mask(self, alternatives: list[NodeTerms | None]) -> BoolArray:
        mask = np.zeros(self.nodes.count, dtype=np.bool_)
        for terms in alternatives:
            mask[slice(None) if terms is None else self._places(terms)] = True
        return mask

    def _places(self, terms: NodeTerms) -> IndexArray:
        """The nodes that terms hold on, remembered for all pods: a local volume has terms of its own."""
        index = self.cluster.volumes
        if index.places_version != self.nodes.version:
            index.places.clear()
            index.places_version = self.nodes.version
        found = index.places.get(id(terms))
        if found is None:
            slots = np.flatnonzero(match_terms(self.nodes, terms, self.nodes.every_slot))
            found = index.places[id(terms)] = (terms, slots)
        return found[1]

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        del gone
        found = self._reason_bits()[slots]
        for bits in np.unique(found[found > 0]).tolist():
            yield SharedVerdict(slots[found == bits], UNRESOLVABLE, self._reasons(bits))

    def helped_by(self, change: ClusterEvent) -> bool:
        return isinstance(change, VolumesChanged) or (isinstance(change, NodeUpdated) and change.labels)

    # --- one node --------------------------------------------------------------------------

    def verdict(self, slot: int) -> RuleVerdict | None:
        labels, node = self.nodes.labels[slot] or {}, self.nodes.names[slot] or ""
        needs = self._needs
        if needs.refusal is not None:
            return RuleVerdict(self.name, UNRESOLVABLE, (needs.refusal,))
        bits, causes = 0, []
        for claim, volume in needs.bound:
            if volume is None:
                bits = _NO_VOLUME
                causes.append(
                    f"claim {claim.name} is bound to volume {claim.volume_name}, which is not there"
                )
                break
            if volume.nodes is not None and not volume.nodes.matches(labels, node):
                bits = _OTHER_NODE
                causes.append(_unreachable(claim, volume, labels))
                break
        reachable = needs.reachable(labels, node)
        if needs.offers and needs.choose(reachable, node) is None:
            bits |= _UNSERVED
            causes += self._unserved(reachable, node)
        if not bits:
            return None
        return RuleVerdict(self.name, UNRESOLVABLE, self._reasons(bits), tuple(causes))

    def _reasons(self, bits: int) -> tuple[str, ...]:
        if self._needs.refusal is not None:
            return (self._needs.refusal,)
        return tuple(reason for bit, reason in _REASONS.items() if bits & bit)

    def _unserved(self, reachable: BoolArray, node: str) -> Iterator[str]:
        elsewhere = [offer for offer in self._needs.offers if offer.node not in (None, node)]
        for offer in elsewhere:
            yield f"the volume of claim {offer.claim.name} is being made for node {offer.node}"
        if elsewhere:
            return
        taken: set[str] = set()
        for offer in self._needs.offers:
            volume = offer.volume_on(reachable, taken)
            if volume is not None:
                taken.add(volume.name)
            elif offer.provision is None:
                yield f"claim {offer.claim.name} finds no volume here, and none can be made"
            elif not reachable[offer.provision]:
                where = (
                    f"class {offer.claim.storage_class} makes them for {self._needs.terms[offer.provision]}"
                )
                yield f"claim {offer.claim.name} finds no volume here, and {where}"


def binds_volumes(pod_class: PodClass) -> bool:
    """Whether the pod has claims, and its profile leaves them to this rule."""
    options = pod_class.options
    return bool(pod_class.claims) and VolumeBinding.name not in options.disabled | options.not_filtering


def _rows(offer: Offer) -> list[int]:
    """The terms of which one must hold for a claim that competes with no other."""
    rows = [int(row) for row in offer.rows] if offer.meant is None else [offer.meant[1]]
    return rows if offer.provision is None else [*rows, offer.provision]


def _unreachable(claim: ClaimRecord, volume: VolumeRecord, labels: dict[str, str]) -> str:
    keys = dict.fromkeys(r.key for term in volume.nodes.terms for r in term.labels) if volume.nodes else {}
    has = ", ".join(f"{key}={labels[key]}" if key in labels else f"no label {key}" for key in keys)
    found = f", the node has {has}" if has else ""
    return f"volume {volume.name} of claim {claim.name} wants {volume.nodes}{found}"
