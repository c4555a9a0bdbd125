"""What a pod needs of volumes, compiled into terms over node labels, and what it gets on a node."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray
from berth.engine.state.pod_class import ClaimUse, PodClass
from berth.engine.state.volumes.csi import StorageRoom
from berth.engine.state.volumes.objects import ClaimKey, ClaimRecord, VolumeRecord
from berth.kube.selectors import NodeTerms
from berth.kube.workloads.pod_templates import assumed_owner

# Nodes of which something is asked; None stands for every node.
Places = NodeTerms | StorageRoom | None
# The first of a pod's terms holds on every node.
EVERYWHERE = 0


class VolumeShortage(Enum):
    """Why a claim gets nothing on a node."""

    VOLUMES = "no volume is there, and none can be made"
    ROOM = "there is too little storage to make one"


@dataclass(frozen=True, slots=True)
class VolumeDecisions:
    """What has to be done before a pod can be bound to a node.

    Attributes:
        provision: Claims (namespace, name) to be annotated with the selected node.
        bind: Volumes whose claimRef is to be set: (volume, namespace, claim).
    """

    provision: tuple[ClaimKey, ...] = ()
    bind: tuple[tuple[str, str, str], ...] = ()

    @property
    def empty(self) -> bool:
        """Every claim of the pod is bound: there is nothing to do and nothing to wait for."""
        return not self.provision and not self.bind


NOTHING_TO_DO = VolumeDecisions()


@dataclass(frozen=True, slots=True)
class Offer:
    """What an unbound claim can get. Rows are positions in the terms of the pod's needs.

    Attributes:
        node: The only node it can get anything on, None for any.
        volumes: The one that is meant for the claim, or else those to choose from, the smallest first.
        rows: The rows of their nodes.
        provision: The row of the nodes a new volume can be made for, None if none can.
        room: The row of the nodes for which there is enough storage to make it, None for all.
    """

    claim: ClaimRecord
    node: str | None
    volumes: tuple[VolumeRecord, ...]
    rows: IndexArray
    provision: int | None
    room: int | None

    def volume_on(self, reachable: BoolArray, taken: Container[str]) -> VolumeRecord | None:
        for i in np.flatnonzero(reachable[self.rows]):
            if self.volumes[i].name not in taken:
                return self.volumes[i]
        return None


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod needs of volumes.

    Attributes:
        refusal: Why no node will do, in kube-scheduler's words.
        refusing: The claim that it is for.
        bound: Its bound claims with their volumes, None for one that does not exist.
        offers: Its other claims; those promised to a node first, then from small to large.
        terms: What can be asked of a node; the first, None, holds everywhere.
    """

    refusal: str | None = None
    refusing: str = ""
    bound: tuple[tuple[ClaimRecord, VolumeRecord | None], ...] = ()
    offers: tuple[Offer, ...] = ()
    terms: tuple[Places, ...] = (None,)

    def reachable(self, labels: dict[str, str], node: str) -> BoolArray:
        """Which of the terms hold on a node."""
        return np.array([t is None or t.matches(labels, node) for t in self.terms], dtype=np.bool_)

    def choose(self, reachable: BoolArray, node: str | None) -> VolumeDecisions | VolumeShortage:
        """What the unbound claims get on a node, or what the first lacks that gets nothing.

        Without a node it is one that no claim is promised to.
        """
        bind: dict[str, ClaimKey] = {}
        provision: list[ClaimKey] = []
        for offer in self.offers:
            if offer.node is not None and offer.node != node:
                return VolumeShortage.VOLUMES
            volume = offer.volume_on(reachable, bind)
            if volume is not None:
                bind[volume.name] = offer.claim.key
            elif offer.provision is None or not reachable[offer.provision]:
                return VolumeShortage.VOLUMES
            elif offer.room is not None and not reachable[offer.room]:
                return VolumeShortage.ROOM
            else:
                provision.append(offer.claim.key)
        return VolumeDecisions(tuple(provision), tuple((name, *key) for name, key in bind.items()))


class Terms:
    """Terms and their rows; the same object has one row."""

    def __init__(self) -> None:
        self.rows: list[Places] = [None]
        self._row_of: dict[int, int] = {id(None): EVERYWHERE}

    def row(self, terms: Places) -> int:
        found = self._row_of.setdefault(id(terms), len(self.rows))
        if found == len(self.rows):
            self.rows.append(terms)
        return found


def refusal_of(pod_class: PodClass, use: ClaimUse, claim: ClaimRecord | None) -> str | None:
    """Why no node will do because of one claim, in kube-scheduler's words."""
    if claim is None:
        if use.ephemeral:
            waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return f'{waiting} "{use.name}"'
        return not_found(use.name)
    if claim.lost:
        return (
            f'persistentvolumeclaim "{claim.name}" bound to non-existent '
            f'persistentvolume "{claim.volume_name}"'
        )
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    pod = pod_class.pod.metadata
    if use.ephemeral and claim.owner != assumed_owner("v1", "Pod", pod).uid:
        namespace = pod_class.namespace
        return (
            f"PVC {namespace}/{claim.name} was not created for pod {namespace}/{pod.name} (pod is not owner)"
        )
    return None


def not_found(claim: str) -> str:
    return f'persistentvolumeclaim "{claim}" not found'
