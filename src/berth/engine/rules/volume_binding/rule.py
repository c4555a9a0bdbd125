"""Volumes: a pod runs where the volumes of its bound claims can be reached, and the others can be bound.

A claim that waits for its first consumer needs a volume that is available there (the smallest that is large
enough), or a storage class that can make one for the node, with enough storage if its driver says how much
is left.  Any other unbound claim makes the pod wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.changes import Question
from berth.engine.rules.verdicts import (
    PROCEED,
    UNRESOLVABLE,
    Cause,
    Reason,
    RuleVerdict,
    SharedVerdict,
    StepStatus,
    found_labels,
)
from berth.engine.rules.volume_binding import clues
from berth.engine.rules.volume_binding.score import StorageScore
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NodeAdded,
    NodeUpdated,
    StorageCapacityChanged,
    VolumesChanged,
)
from berth.engine.state.columns import BoolArray, IndexArray, Int64Array, Slots
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.requests import spelled
from berth.engine.state.volumes.csi import StorageRoom
from berth.engine.state.volumes.index import UNBOUND_IMMEDIATE, VolumeIndex
from berth.engine.state.volumes.needs import Needs, Offer, Places, VolumeDecisions, VolumeShortage
from berth.engine.state.volumes.objects import ClaimRecord
from berth.kube.amounts.resource_names import MEMORY

# Other rules about volumes meet some of these, too.
CLAIM_NOT_FOUND = Reason(
    "ClaimNotFound",
    "",
    "claim {claim} is not there",
    waits_for="the claim {claim}",
    events=(VolumesChanged,),
)
CLAIM_NOT_READY = Reason(
    "ClaimNotReady",
    "",
    "claim {claim} is {state}",
    waits_for="the claim {claim} to be bound",
    events=(VolumesChanged,),
)
# It never will be ready.
CLAIM_UNUSABLE = replace(CLAIM_NOT_READY, code="ClaimUnusable", waits_for="the claim {claim} to be made anew")
VOLUME_NOT_FOUND = Reason(
    "VolumeNotFound",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "claim {claim} is bound to volume {volume}, which is not there",
    waits_for="the volume {volume}",
    events=(VolumesChanged,),
)
OTHER_NODE = Reason(
    "VolumeNodeMismatch",
    "node(s) didn't match PersistentVolume's node affinity",
    "volume {volume} of claim {claim} wants {wanted}{found}",
    varies=("found",),
    waits_for="a node with {wanted}, where volume {volume} is",
    events=(NodeAdded, NodeUpdated),
)
UNSERVED = Reason(
    "NoVolumeToBind",
    "node(s) didn't find available persistent volumes to bind",
    "claim {claim} finds no volume here, and none can be made",
    waits_for="a volume for claim {claim} where a node can reach it",
    events=(VolumesChanged,),
)
NO_ROOM = Reason(
    "NoStorageCapacity",
    "node(s) did not have enough free storage",
    "claim {claim} wants a new volume of {wanted}, and not so much storage of class {class} "
    "is left for the node",
    waits_for="storage of class {class} to be free for claim {claim}: {wanted}",
    events=(StorageCapacityChanged,),
)

# Bits of the reasons to refuse a node, with their sentences in upstream's order.
_OTHER_NODE, _UNSERVED, _NO_ROOM, _NO_VOLUME, _REFUSED = 1, 2, 4, 8, 16
_REASONS = {
    _OTHER_NODE: OTHER_NODE.sentence,
    _UNSERVED: UNSERVED.sentence,
    _NO_ROOM: NO_ROOM.sentence,
    _NO_VOLUME: VOLUME_NOT_FOUND.sentence,
}
_BITS = {VolumeShortage.VOLUMES: _UNSERVED, VolumeShortage.ROOM: _NO_ROOM}

_PROMISED = "the volume of claim {claim} is being made for node {node}"
_MADE_ELSEWHERE = "claim {claim} finds no volume here, and class {class} makes them for {wanted}"

# Up to so many nodes are asked one by one; for more, every node is.
_FEW = 4


class VolumeBinding(NodeRule):
    name = "VolumeBinding"
    path = "spec.volumes"
    reasons = (
        OTHER_NODE,
        UNSERVED,
        NO_ROOM,
        VOLUME_NOT_FOUND,
        CLAIM_NOT_FOUND,
        CLAIM_NOT_READY,
        CLAIM_UNUSABLE,
    )
    recorded = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._needs: Needs = cluster.volumes.needs_of(pod_class)
        refusal = self._needs.refusal
        self.prefilter = PROCEED if refusal is None else StepStatus(UNRESOLVABLE, (refusal,))
        options = pod_class.options
        self.scores = options.version.storage_capacity_scored and bool(self._needs.offers)
        self._score = StorageScore(self._needs, options.args.storage_shape) if self.scores else None
        self._scored: tuple[int, Int64Array] | None = None

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
        return bits | self._shortages() if needs.offers else bits

    def _shortages(self) -> IndexArray:
        """For every node the bit of what the first claim lacks that gets no volume there."""
        if (alone := self._alone) is not None:
            return self._for_one(alone)
        decisions, kind_of = self._by_kind()
        found = [_BITS[d] if isinstance(d, VolumeShortage) else 0 for d in decisions]
        return np.array(found, dtype=np.intp)[kind_of]

    @property
    def _alone(self) -> Offer | None:
        """The only claim that is yet to be bound, if it is promised to no node: it competes with no other."""
        offers = self._needs.offers
        return offers[0] if len(offers) == 1 and offers[0].node is None else None

    def _for_one(self, offer: Offer) -> IndexArray:
        terms = self._needs.terms
        bits = np.full(self.nodes.count, _UNSERVED, dtype=np.intp)
        if offer.provision is not None:
            bits[self._mask([terms[offer.provision]])] = 0
            if offer.room is not None:
                bits[(bits == 0) & ~self._mask([terms[offer.room]])] = _NO_ROOM
        bits[self._mask([terms[row] for row in offer.rows.tolist()])] = 0
        return bits

    def _by_kind(self) -> tuple[list[VolumeDecisions | VolumeShortage], IndexArray]:
        """What the claims get, kind by kind of nodes, and the kind of every node."""
        count, terms = self.nodes.count, self._needs.terms
        if promised := {offer.node for offer in self._needs.offers if offer.node is not None}:
            decisions: list[VolumeDecisions | VolumeShortage] = [VolumeShortage.VOLUMES]
            places = np.zeros(count, dtype=np.intp)
            for node in promised & self.nodes.slot_of.keys():
                slot = self.nodes.slot_of[node]
                places[slot] = len(decisions)
                reachable = self._needs.reachable(self.nodes.labels[slot] or {}, node)
                decisions.append(self._needs.choose(reachable, node))
            return decisions, places
        # Tried once for all nodes on which the same terms hold: the claims compete for volumes.
        reachable = np.zeros((count, len(terms)), dtype=np.bool_)
        for row, wanted in enumerate(terms):
            reachable[self._places(wanted), row] = True
        packed = np.packbits(reachable, axis=1)
        kinds = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, examples, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
        return [self._needs.choose(reachable[example], None) for example in examples], kind_of

    def _mask(self, alternatives: list[Places]) -> BoolArray:
        mask = np.zeros(self.nodes.count, dtype=np.bool_)
        for terms in alternatives:
            mask[self._places(terms)] = True
        return mask

    def _places(self, terms: Places) -> Slots:
        """The nodes that terms hold on, remembered for all pods: a local volume has terms of its own."""
        if terms is None:
            return slice(None)
        if isinstance(terms, StorageRoom):
            return terms.slots()
        index = self.cluster.volumes
        if index.places_version != self.nodes.version:
            index.places.clear()
            index.places_version = self.nodes.version
        found = index.places.get(id(terms))
        if found is None:
            slots = np.flatnonzero(self.nodes.matching_terms(terms, self.nodes.every_slot))
            found = index.places[id(terms)] = (terms, slots)
        return found[1]

    def raw(self, slots: Slots) -> Int64Array:
        if self._scored is None or self._scored[0] != self.nodes.version:
            self._scored = (self.nodes.version, self._raw())
        return self._scored[1][slots]

    def _raw(self) -> Int64Array:
        """For every node; what those get that are refused does not matter."""
        scores = np.zeros(self.nodes.count, dtype=np.int64)
        if self._score is None:
            return scores
        if (alone := self._alone) is not None:
            return self._score.of_one(alone, self.nodes.count, self._places)
        decisions, kind_of = self._by_kind()
        for kind, decision in enumerate(decisions):
            if isinstance(decision, VolumeDecisions):
                slots = np.flatnonzero(kind_of == kind)
                scores[slots] = self._score.of(decision, slots)
        return scores

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        found = self._reason_bits()[slots]
        for bits in np.unique(found[found > 0]).tolist():
            said = tuple(reason for bit, reason in _REASONS.items() if bits & bit)
            yield SharedVerdict(slots[found == bits], UNRESOLVABLE, said or (self._needs.refusal or "",))

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, StorageCapacityChanged):
            return self.cluster.volumes.waits_for(self.pod_class, change.storage_class)
        return isinstance(change, VolumesChanged) or (isinstance(change, NodeUpdated) and change.labels)

    # --- one node --------------------------------------------------------------------------

    def causes(self, slot: int) -> Iterator[Cause]:
        labels, node = self.nodes.labels[slot] or {}, self.nodes.names[slot] or ""
        needs = self._needs
        if needs.refusal is not None:
            yield self._unready(needs.refusal)
            return
        for claim, volume in needs.bound:
            if volume is None:
                yield Cause(VOLUME_NOT_FOUND, {"claim": claim.name, "volume": claim.volume_name}, self.path)
                break
            if volume.nodes is not None and not volume.nodes.matches(labels, node):
                has = found_labels(volume.nodes, labels)
                values = {"volume": volume.name, "claim": claim.name, "wanted": str(volume.nodes)}
                values["found"] = f", the node has {has}" if has else ""
                yield Cause(OTHER_NODE, values, self.path)
                break
        reachable = needs.reachable(labels, node)
        shortage = needs.choose(reachable, node)
        if isinstance(shortage, VolumeShortage):
            # Upstream names what the first claim lacks, and says nothing of the others.
            said = _REASONS[_BITS[shortage]]
            yield from (cause for cause in self._unserved(reachable, node) if cause.sentence == said)

    def verdict(self, slot: int) -> RuleVerdict | None:
        found = super().verdict(slot)
        if found is None or self._needs.refusal is not None:
            return found
        # Upstream's sentences have an order of their own.
        return replace(found, reasons=tuple(said for said in _REASONS.values() if said in found.reasons))

    def _unready(self, refusal: str) -> Cause:
        name, index = self._needs.refusing, self.cluster.volumes
        if name == index.missing(self.pod_class):
            return Cause(CLAIM_NOT_FOUND, {"claim": name}, self.path, said=refusal)
        reason, state = _unready(index, index.claim(self.pod_class.namespace, name), refusal)
        return Cause(reason, {"claim": name, "state": state}, self.path, said=refusal)

    def _unserved(self, reachable: BoolArray, node: str) -> Iterator[Cause]:
        elsewhere = [offer for offer in self._needs.offers if offer.node not in (None, node)]
        for offer in elsewhere:
            values = {"claim": offer.claim.name, "node": offer.node or ""}
            yield Cause(UNSERVED, values, self.path, worded=_PROMISED)
        if elsewhere:
            return
        taken: set[str] = set()
        for offer in self._needs.offers:
            claim, volume = offer.claim, offer.volume_on(reachable, taken)
            if volume is not None:
                taken.add(volume.name)
            elif offer.provision is None:
                yield Cause(UNSERVED, {"claim": claim.name}, self.path)
            elif not reachable[offer.provision]:
                wanted = str(self._needs.terms[offer.provision])
                values = {"claim": claim.name, "class": claim.storage_class, "wanted": wanted}
                yield Cause(UNSERVED, values, self.path, worded=_MADE_ELSEWHERE)
            elif offer.room is not None and not reachable[offer.room]:
                wanted = spelled(MEMORY, claim.wanted_bytes)
                values = {"claim": claim.name, "class": claim.storage_class, "wanted": wanted}
                yield Cause(NO_ROOM, values, self.path)


def _unready(index: VolumeIndex, claim: ClaimRecord | None, refusal: str) -> tuple[Reason, str]:
    """Why no node will do because of a claim that is there, or is being made for the pod, and its state."""
    if claim is None:
        return CLAIM_NOT_READY, "not made yet"
    if claim.lost:
        return CLAIM_UNUSABLE, f"Lost: its volume {claim.volume_name} is not there"
    if claim.deleting:
        return CLAIM_UNUSABLE, "being deleted"
    if refusal != UNBOUND_IMMEDIATE:
        return CLAIM_UNUSABLE, "not made for this pod"
    return CLAIM_NOT_READY, f"Pending: {_lacking(index, claim)}"


def _lacking(index: VolumeIndex, claim: ClaimRecord) -> str:
    if claim.volume_name:
        return f"it is not bound to volume {claim.volume_name} yet"
    if not claim.storage_class:
        return "it has no class, and no volume is bound to it"
    if claim.storage_class not in index.classes:
        return f"its StorageClass {claim.storage_class} is not there"
    return f"StorageClass {claim.storage_class} has not given it a volume yet"


def binds_volumes(pod_class: PodClass) -> bool:
    """Whether the pod has claims, and its profile leaves them to this rule."""
    return bool(pod_class.claims) and VolumeBinding.name not in pod_class.options.idle
