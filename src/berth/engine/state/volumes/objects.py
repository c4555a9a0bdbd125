"""Claims, volumes and storage classes as far as placement can see them, parsed once.

Two states of an object that make equal records are the same to the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.kube import objects
from berth.kube.amounts import quantity
from berth.kube.in_tree_volumes import translated
from berth.kube.objects import ObjectMeta, ResourceList
from berth.kube.ownership import controller_of
from berth.kube.selectors import (
    IN,
    NodeTerm,
    NodeTerms,
    Requirement,
    Selector,
    parse_label_selector,
    parse_node_selector,
)
from berth.kube.well_known import BETA_STORAGE_CLASS, BETA_ZONE, REGION, SELECTED_NODE, ZONE

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONCE_PER_POD = "ReadWriteOncePod"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
# The labels that say where a volume can be reached, with what a node may call the same today.
ZONE_KEYS = {BETA_ZONE: ZONE, _BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}

_BILLION = 10**9

ClaimKey = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A PersistentVolumeClaim.

    Attributes:
        bound: To `volume_name`, and the volume's side is done, too.
        selected_node: Where the volume that is made for the claim has to be reachable.
        wanted: How much it asks for, in billionths of a byte.
        owner: UID of the controller, for a claim made for a pod.
        unseen: No API server has seen it yet, so nothing had the chance to bind it: it is treated
            as if it waited for its first consumer, whatever its class says.
    """

    key: ClaimKey
    uid: str
    storage_class: str
    volume_name: str
    bound: bool
    selected_node: str | None
    access_modes: frozenset[str]
    mode: str
    wanted: int
    selector: Selector | None
    attributes_class: str
    lost: bool
    deleting: bool
    owner: str | None
    unseen: bool

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def wanted_bytes(self) -> int:
        return -(-self.wanted // _BILLION)


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """The claim a volume is meant for; without a UID it is any of that name."""

    key: ClaimKey
    uid: str = ""

    def means(self, claim: ClaimRecord) -> bool:
        return self.key == claim.key and self.uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class VolumeRecord:
    """A PersistentVolume.

    Attributes:
        csi: Driver and handle, for a volume of a CSI driver.
        in_tree: It is not stated as one.
        nodes: The nodes that can reach it, None for all.
        zones: Zone labels and the values a node may have for them.
    """

    name: str
    labels: dict[str, str]
    storage_class: str
    capacity: int
    access_modes: frozenset[str]
    mode: str
    attributes_class: str
    claim: ClaimRef | None
    nodes: NodeTerms | None
    zones: tuple[tuple[str, frozenset[str]], ...]
    available: bool
    deleting: bool
    csi: tuple[str, str] | None
    in_tree: bool

    @property
    def bytes(self) -> int:
        return -(-self.capacity // _BILLION)

    def suits(self, claim: ClaimRecord) -> bool:
        """Whether it is large enough and of the right kind, as even a volume meant for the claim must be."""
        return (
            not self.deleting
            and self.mode == claim.mode
            and self.attributes_class == claim.attributes_class
            and self.capacity >= claim.wanted
        )

    def unfit_for(self, claim: ClaimRecord) -> str | None:
        """What keeps a claim of its class from getting it, wherever it is; None if nothing does."""
        meant = self.claim is not None and self.claim.means(claim)
        kind = self.mode == claim.mode and self.attributes_class == claim.attributes_class
        if self.deleting:
            return "is being deleted"
        if self.claim is not None and not meant:
            namesake = "an earlier claim of that name" if self.claim.key == claim.key else None
            return f"is claimed by {namesake or '/'.join(self.claim.key)}"
        if self.capacity < claim.wanted:
            return "is too small"
        if not kind or not (meant or claim.access_modes <= self.access_modes):
            return "is of another mode"
        if meant or self.may_be_chosen(claim):
            return None
        return "is not Available" if not self.available else "has not the labels that it selects"

    def may_be_chosen(self, claim: ClaimRecord) -> bool:
        """Whether it may be taken for a claim that it was not meant for."""
        return (
            self.available
            and (claim.selector is None or claim.selector.matches(self.labels))
            and claim.access_modes <= self.access_modes
        )


@dataclass(frozen=True, slots=True)
class StorageClassRecord:
    """A StorageClass; `topologies` are the nodes whose volumes it can make, None for all."""

    name: str
    delayed: bool
    provisioner: str
    topologies: NodeTerms | None

    @property
    def provisions(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)


def claim_from(view: objects.PersistentVolumeClaim, *, unseen: bool = False) -> ClaimRecord:
    meta, spec = view.metadata, view.spec
    annotations = meta.annotations or {}
    volume_name = spec.volume_name or ""
    owner = controller_of(meta)
    return ClaimRecord(
        key=(meta.namespace or "default", meta.name or ""),
        uid=meta.uid or "",
        storage_class=_class_name(meta, spec.storage_class_name),
        volume_name=volume_name,
        bound=bool(volume_name) and (unseen or BIND_COMPLETED in annotations),
        selected_node=annotations.get(SELECTED_NODE),
        access_modes=frozenset(spec.access_modes or ()),
        mode=spec.volume_mode or "Filesystem",
        wanted=_storage(spec.resources.requests if spec.resources else None),
        selector=None if spec.selector is None else parse_label_selector(spec.selector),
        attributes_class=spec.volume_attributes_class_name or "",
        lost=view.status is not None and view.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        owner=None if owner is None else owner.uid or "",
        unseen=unseen,
    )


def volume_from(view: objects.PersistentVolume) -> VolumeRecord:
    meta, spec = view.metadata, view.spec
    reference, affinity = spec.claim_ref, spec.node_affinity
    claim = None
    if reference is not None:
        claim = ClaimRef((reference.namespace or "", reference.name or ""), reference.uid or "")
    return VolumeRecord(
        name=meta.name or "",
        labels=meta.labels or {},
        storage_class=_class_name(meta, spec.storage_class_name),
        capacity=_storage(spec.capacity),
        access_modes=frozenset(spec.access_modes or ()),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        claim=claim,
        nodes=parse_node_selector(affinity.required if affinity else None),
        zones=_zones(meta.labels or {}),
        available=view.status is not None and view.status.phase == "Available",
        deleting=meta.deletion_timestamp is not None,
        csi=translated(spec, meta.labels)
        if spec.csi is None
        else (spec.csi.driver or "", spec.csi.volume_handle or ""),
        in_tree=spec.csi is None,
    )


def class_from(view: objects.StorageClass) -> StorageClassRecord:
    return StorageClassRecord(
        name=view.metadata.name or "",
        delayed=view.volume_binding_mode == "WaitForFirstConsumer",
        provisioner=view.provisioner or "",
        topologies=_topologies(view.allowed_topologies or []),
    )


def _class_name(meta: ObjectMeta, given: str | None) -> str:
    return (meta.annotations or {}).get(BETA_STORAGE_CLASS, given or "")


def _storage(amounts: ResourceList | None) -> int:
    """In billionths, of which every amount is a multiple: integers are compared many times faster."""
    return int(quantity.parse((amounts or {}).get("storage", 0)) * _BILLION)


def _zones(labels: dict[str, str]) -> tuple[tuple[str, frozenset[str]], ...]:
    """Several zones stand in one label, separated by two underscores; one that is empty voids the label."""
    found = []
    for key in ZONE_KEYS:
        if key in labels:
            values = frozenset(value.strip() for value in labels[key].split("__"))
            if "" not in values:
                found.append((key, values))
    return tuple(found)


def _topologies(terms: list[objects.TopologySelectorTerm]) -> NodeTerms | None:
    """No terms allow every node, an empty term none."""
    if not terms:
        return None
    stated = [term.match_label_expressions or [] for term in terms]
    return NodeTerms(
        tuple(
            NodeTerm(tuple(Requirement(e.key or "", IN, frozenset(e.values or ())) for e in expressions))
            for expressions in stated
            if expressions
        )
    )
