"""The claims, volumes and storage classes of a cluster, and what pods need of them.

The needs of a pod with claims are compiled once per class, into terms over node labels; any change that they
could see drops the plan they belong to.  What the scheduler has decided but the API server does not say yet
is kept beside the objects: a volume promised to a claim is not available to others, a claim promised to a
node is feasible there only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from berth.engine.state.classes import PlanCache
from berth.engine.state.columns import IndexArray, take_out
from berth.engine.state.pod_class import UNCLAIMED, ClaimUse, DiskUse, PodClass
from berth.engine.state.tables import NodeTable
from berth.engine.state.volumes.csi import CsiIndex, CsiVolume, StorageCapacities, VolumeAttachments
from berth.engine.state.volumes.needs import (
    EVERYWHERE,
    NOTHING_TO_DO,
    Needs,
    Offer,
    Terms,
    VolumeDecisions,
    refusal_of,
)
from berth.engine.state.volumes.objects import (
    ONCE_PER_POD,
    ClaimKey,
    ClaimRecord,
    ClaimRef,
    StorageClassRecord,
    VolumeRecord,
    claim_from,
    class_from,
    volume_from,
)
from berth.kube import objects
from berth.kube.in_tree_volumes import DRIVERS
from berth.kube.selectors import NodeTerms

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
# Terms that may be remembered although no volume has them any more.
_SPARE_TERMS = 1000


class VolumeIndex:
    """All claims, volumes and storage classes.

    Attributes:
        known: Whether the objects are there to be judged by; if not, pods with claims are placed as if
            they had none. To be set before the first pod is placed.
        capacities_known: The same for how much storage is left.
        claims, volumes, classes: All there are, by namespace and name, or by name.
        csi: Which volumes are attached where.
        places: By the id of terms, these and the slots of the nodes they hold on, as of the nodes' version
            `places_version`. The ids are as good as the terms, since equal ones are the same object here.
    """

    def __init__(self, nodes: NodeTable, plans: PlanCache) -> None:
        self.known = self.capacities_known = False
        self.places: dict[int, tuple[NodeTerms, IndexArray]] = {}
        self.places_version = -1
        self.csi = CsiIndex(nodes)
        self._capacities = StorageCapacities(nodes)
        self._nodes, self._plans = nodes, plans
        self.claims: dict[ClaimKey, ClaimRecord] = {}
        self.volumes: dict[str, VolumeRecord] = {}
        self.attachments = VolumeAttachments(self.csi, self.volumes)
        self.classes: dict[str, StorageClassRecord] = {}
        # Volumes by the claim they are meant for; the others by storage class.
        self._meant: dict[ClaimKey, dict[str, None]] = {}
        self._free: dict[str, dict[str, VolumeRecord]] = {}
        self._terms: dict[NodeTerms, NodeTerms] = {}
        self._users: dict[ClaimKey, dict[PodClass, ClaimUse]] = {}
        self._disk_users: dict[DiskUse, dict[PodClass, None]] = {}
        # Claims by the volume that they name.
        self._naming: dict[str, dict[ClaimKey, None]] = {}
        # A pod is decided about right after its plan was made.
        self._latest: tuple[PodClass, Needs] | None = None
        self._promises: dict[str, tuple[VolumeDecisions, str]] = {}
        self._promised_volumes: dict[str, dict[str, ClaimRef]] = {}
        self._promised_claims: dict[ClaimKey, dict[str, str]] = {}

    # --- objects come and go ------------------------------------------------------------

    def set_claim(self, claim: objects.PersistentVolumeClaim, *, unseen: bool = False) -> bool:
        """Take over a claim; True if placement can see a difference.

        `unseen` says that no API server has seen it, so that nothing could have bound it yet.
        """
        new = claim_from(claim, unseen=unseen)
        if self.claims.get(new.key) == new:
            return False
        self._unname(new.key)
        self.claims[new.key] = new
        if new.volume_name:
            self._naming.setdefault(new.volume_name, {})[new.key] = None
        self._claim_changed(new.key)
        return True

    def remove_claim(self, namespace: str, name: str) -> bool:
        self._unname((namespace, name))
        if self.claims.pop((namespace, name), None) is None:
            return False
        self._claim_changed((namespace, name))
        return True

    def _unname(self, key: ClaimKey) -> None:
        claim = self.claims.get(key)
        if claim is not None and claim.volume_name:
            take_out(self._naming, claim.volume_name, key)

    def claim(self, namespace: str, name: str) -> ClaimRecord | None:
        return self.claims.get((namespace, name))

    def set_volume(self, volume: objects.PersistentVolume) -> bool:
        new = self._interned(volume_from(volume))
        old = self.volumes.get(new.name)
        if old == new:
            return False
        if old is not None:
            self._unlist(old)
        self.volumes[new.name] = new
        if new.claim is None:
            self._free.setdefault(new.storage_class, {})[new.name] = new
        else:
            self._meant.setdefault(new.claim.key, {})[new.name] = None
        self._volume_changed(new, old)
        return True

    def _interned(self, volume: VolumeRecord) -> VolumeRecord:
        """The volume with the very terms that other volumes of the same nodes have."""
        if volume.nodes is None:
            return volume
        if len(self._terms) > 2 * len(self.volumes) + _SPARE_TERMS:
            self._terms = {known.nodes: known.nodes for known in self.volumes.values() if known.nodes}
        return replace(volume, nodes=self._terms.setdefault(volume.nodes, volume.nodes))

    def remove_volume(self, name: str) -> bool:
        old = self.volumes.pop(name, None)
        if old is None:
            return False
        self._unlist(old)
        self._volume_changed(old)
        return True

    def _unlist(self, volume: VolumeRecord) -> None:
        if volume.claim is None:
            take_out(self._free, volume.storage_class, volume.name)
        else:
            take_out(self._meant, volume.claim.key, volume.name)

    def set_class(self, storage_class: objects.StorageClass) -> bool:
        new = class_from(storage_class)
        if self.classes.get(new.name) == new:
            return False
        self.classes[new.name] = new
        self._class_changed(new.name)
        return True

    def remove_class(self, name: str) -> bool:
        if self.classes.pop(name, None) is None:
            return False
        self._class_changed(name)
        return True

    def set_driver(self, driver: objects.CSIDriver) -> bool:
        return self.csi.set_driver(driver) and self._driver_changed(driver.metadata.name or "")

    def remove_driver(self, name: str) -> bool:
        return self.csi.remove_driver(name) and self._driver_changed(name)

    def _driver_changed(self, name: str) -> bool:
        self._drop_planned({each.name for each in self.classes.values() if each.provisioner == name})
        return True

    def set_capacity(self, capacity: objects.CSIStorageCapacity) -> set[str]:
        """Take over a CSIStorageCapacity; the storage classes for which something is different now."""
        return self._capacities_changed(self._capacities.put(capacity))

    def remove_capacity(self, namespace: str, name: str) -> set[str]:
        return self._capacities_changed(self._capacities.drop((namespace, name)))

    def _capacities_changed(self, classes: set[str]) -> set[str]:
        if classes:
            self._drop_planned(classes)
        return classes

    # --- whom it concerns ------------------------------------------------------------------

    def concerns(self, pod_class: PodClass) -> bool:
        return self.known and bool(pod_class.claims)

    def class_joins(self, pod_class: PodClass) -> None:
        for use in pod_class.claims:
            self._users.setdefault((pod_class.namespace, use.name), {})[pod_class] = use
        for disk in pod_class.disks:
            self._disk_users.setdefault(disk, {})[pod_class] = None

    def class_leaves(self, pod_class: PodClass) -> None:
        for use in pod_class.claims:
            take_out(self._users, (pod_class.namespace, use.name), pod_class)
        for disk in pod_class.disks:
            take_out(self._disk_users, disk, pod_class)

    def _claim_changed(self, key: ClaimKey) -> None:
        self._resolve((key,))
        self._drop_plans(self._users.get(key, ()))

    def _resolve(self, keys: Iterable[ClaimKey]) -> None:
        """Tell the volumes that claims of pods on nodes have now."""
        for key in keys:
            self.csi.resolve(key, self._csi_volume(key))

    def _csi_volume(self, key: ClaimKey) -> CsiVolume | None:
        """A volume as its driver counts it, that of a claim or of none; None if no driver does."""
        if key[0].startswith(UNCLAIMED):
            return CsiVolume(key[0].removeprefix(UNCLAIMED), key[1])
        claim = self.claims.get(key)
        if claim is None:
            return None
        volume = self.volumes.get(claim.volume_name) if claim.volume_name else None
        if volume is not None:
            found = volume.csi
        else:
            storage_class = self.classes.get(claim.storage_class)
            provisioner = storage_class.provisioner if storage_class else ""
            # No volume has a handle like this, so the claim counts for itself.
            found = (DRIVERS.get(provisioner, provisioner), "\0" + "/".join(key))
        return CsiVolume(*found) if found and all(found) else None

    def csi_volumes(self, pod_class: PodClass) -> Iterator[tuple[ClaimKey, CsiVolume | None]]:
        """What a pod mounts, and what each of it counts as."""
        for key in pod_class.volume_keys:
            yield key, self._csi_volume(key)

    def _volume_changed(self, *states: VolumeRecord | None) -> None:
        volumes = [volume for volume in states if volume is not None]
        names = {volume.name for volume in volumes}
        for volume_name in names:
            self.attachments.volume_changed(volume_name)
            self._resolve(self._naming.get(volume_name, ()))
        self._drop_planned({volume.storage_class for volume in volumes}, names)

    def _class_changed(self, name: str) -> None:
        self._resolve(self.csi.used)
        self._drop_planned({name})

    def _drop_planned(self, classes: Collection[str], volumes: Collection[str] = ()) -> None:
        """Drop the plans of pods with a claim bound to such a volume, or unbound of such a class."""

        def concerns(claim: ClaimRecord) -> bool:
            return claim.volume_name in volumes or (not claim.bound and claim.storage_class in classes)

        self._drop_plans(c for c in self._plans.by_class if any(map(concerns, self._claims_of(c))))

    def _uses_of(self, pod_class: PodClass) -> Iterator[tuple[ClaimUse, ClaimRecord | None]]:
        for use in pod_class.claims:
            yield use, self.claims.get((pod_class.namespace, use.name))

    def _claims_of(self, pod_class: PodClass) -> Iterator[ClaimRecord]:
        return (claim for _, claim in self._uses_of(pod_class) if claim is not None)

    def _drop_plans(self, classes: Iterable[PodClass]) -> None:
        self._latest = None
        for pod_class in list(classes):
            if pod_class.plan is not None:
                self._plans.drop(pod_class)

    # --- what pods need --------------------------------------------------------------------

    def missing(self, pod_class: PodClass) -> str | None:
        """The first claim the pod names itself that is not there."""
        missing = (u.name for u, claim in self._uses_of(pod_class) if claim is None and not u.ephemeral)
        return next(missing, None)

    def exclusive(self, pod_class: PodClass) -> list[str]:
        """The claims the pod names itself that only one pod may use at a time."""
        stated = ((use.name, claim) for use, claim in self._uses_of(pod_class) if not use.ephemeral)
        return [name for name, claim in stated if claim and ONCE_PER_POD in claim.access_modes]

    def users_of(self, namespace: str, claim: str) -> frozenset[PodClass]:
        """The classes of pods on nodes that mount the claim by its name."""
        users = self._users.get((namespace, claim), {})
        return frozenset(c for c, use in users.items() if c.running and not use.ephemeral)

    def rivals_of(self, pod_class: PodClass) -> frozenset[PodClass]:
        """The classes of pods on nodes with a disk that such a pod cannot share on one node."""
        rivals = (rival for disk in pod_class.disks for rival in disk.rivals)
        return frozenset(c for rival in rivals for c in self._disk_users.get(rival, ()) if c.running)

    def volumes_of(self, pod_class: PodClass) -> Iterator[tuple[ClaimRecord, VolumeRecord | None]]:
        """The claims the pod names itself and that have a volume, with that volume."""
        for use, claim in self._uses_of(pod_class):
            if claim is not None and claim.volume_name and not use.ephemeral:
                yield claim, self.volumes.get(claim.volume_name)

    def needs_of(self, pod_class: PodClass) -> Needs:
        if self._latest is None or self._latest[0] is not pod_class:
            self._latest = (pod_class, self._compiled(pod_class))
        return self._latest[1]

    def _compiled(self, pod_class: PodClass) -> Needs:
        claims = []
        for use, claim in self._uses_of(pod_class):
            refusal = refusal_of(pod_class, use, claim)
            if refusal is not None or claim is None:
                return Needs(refusal, use.name)
            claims.append(claim)
        unbound = [claim for claim in claims if not claim.bound]
        for claim in unbound:
            if not self._waits(claim):
                return Needs(UNBOUND_IMMEDIATE, claim.name)
        unbound.sort(key=lambda claim: (self._node_of(claim) is None, claim.wanted))
        terms = Terms()
        offers = tuple(self._offer(claim, terms) for claim in unbound)
        bound = tuple((claim, self.volumes.get(claim.volume_name)) for claim in claims if claim.bound)
        return Needs(None, "", bound, offers, tuple(terms.rows))

    def _waits(self, claim: ClaimRecord) -> bool:
        """Whether the claim is to be bound by the scheduler."""
        storage_class = self.classes.get(claim.storage_class)
        delayed = storage_class is not None and storage_class.delayed and not claim.volume_name
        return claim.unseen or delayed

    def _offer(self, claim: ClaimRecord, terms: Terms) -> Offer:
        node = self._node_of(claim)
        meant = self._meant_for(claim) if node is None else None
        free = self._free_for(claim) if node is None and meant is None else []
        volumes = free if meant is None else [meant]
        rows = np.array([terms.row(volume.nodes) for volume in volumes], dtype=np.intp)
        return Offer(
            claim, node, tuple(volumes), rows, self._provision(claim, terms), self._room(claim, terms)
        )

    def _node_of(self, claim: ClaimRecord) -> str | None:
        promised = self._promised_claims.get(claim.key)
        return next(iter(promised.values())) if promised else claim.selected_node

    def _meant_for(self, claim: ClaimRecord) -> VolumeRecord | None:
        promised = (
            name
            for name, references in self._promised_volumes.items()
            if any(reference.means(claim) for reference in references.values())
        )
        stated = (
            name
            for name in self._meant.get(claim.key, ())
            if all(reference.means(claim) for reference in self._promised_volumes.get(name, {}).values())
        )
        for name in (*promised, *sorted(stated)):
            volume = self.volumes.get(name)
            if volume is None or (volume.claim is not None and not volume.claim.means(claim)):
                continue
            if volume.storage_class == claim.storage_class and volume.suits(claim):
                return volume
        return None

    def _free_for(self, claim: ClaimRecord) -> list[VolumeRecord]:
        found = [
            volume
            for name, volume in self._free.get(claim.storage_class, {}).items()
            if name not in self._promised_volumes and volume.suits(claim) and volume.may_be_chosen(claim)
        ]
        return sorted(found, key=lambda volume: volume.capacity)

    def _provision(self, claim: ClaimRecord, terms: Terms) -> int | None:
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None:
            by_hand = claim.storage_class in self._free  # there are some, and nobody used them yet
            return EVERYWHERE if claim.unseen and not by_hand else None
        return terms.row(storage_class.topologies) if storage_class.provisions else None

    def _room(self, claim: ClaimRecord, terms: Terms) -> int | None:
        """The row of the nodes with room for a new volume, None if nobody has to ask."""
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None or not (claim.wanted and self.capacities_known):
            return None
        if not self.csi.tells_capacity(storage_class.provisioner):
            return None
        return terms.row(self._capacities.room(storage_class.name, claim.wanted_bytes))

    def waits_for(self, pod_class: PodClass, storage_class: str) -> bool:
        """Whether a claim of the pod has to be bound and is of the class."""
        claims = self._claims_of(pod_class)
        return any(not claim.bound and claim.storage_class == storage_class for claim in claims)

    # --- decisions -------------------------------------------------------------------------

    def decisions(self, pod_class: PodClass, node_name: str) -> VolumeDecisions:
        """What has to be done before a pod of the class can be bound to the node.

        Raises:
            ValueError: its volumes do not allow that node.
        """
        if not self.concerns(pod_class):
            return NOTHING_TO_DO
        needs = self.needs_of(pod_class)
        if not needs.offers and needs.refusal is None:
            return NOTHING_TO_DO
        slot = self._nodes.slot_of.get(node_name)
        if needs.refusal is None and slot is not None:
            reachable = needs.reachable(self._nodes.labels[slot] or {}, node_name)
            found = needs.choose(reachable, node_name)
            if isinstance(found, VolumeDecisions):
                return found
        raise ValueError(f"the pod's volumes do not allow node {node_name}")

    def assume(self, pod_key: str, decisions: VolumeDecisions, node_name: str) -> None:
        """Promise a pod what was decided for it, until it is forgotten."""
        self.forget(pod_key)
        if decisions.empty:
            return
        self._promises[pod_key] = (decisions, node_name)
        for key in decisions.provision:
            self._promised_claims.setdefault(key, {})[pod_key] = node_name
        for volume, namespace, name in decisions.bind:
            key = (namespace, name)
            uid = self.claims[key].uid if key in self.claims else ""
            self._promised_volumes.setdefault(volume, {})[pod_key] = ClaimRef(key, uid)
        self._promises_changed(decisions)

    def promised(self, pod_key: str) -> tuple[VolumeDecisions, str] | None:
        """What a pod was promised, and for which node."""
        return self._promises.get(pod_key)

    def forget(self, pod_key: str) -> None:
        """Take back what a pod was promised: it was bound, or will not be."""
        decisions, _ = self._promises.pop(pod_key, (NOTHING_TO_DO, ""))
        for key in decisions.provision:
            take_out(self._promised_claims, key, pod_key)
        for volume, *_claim in decisions.bind:
            take_out(self._promised_volumes, volume, pod_key)
        self._promises_changed(decisions)

    def _promises_changed(self, decisions: VolumeDecisions) -> None:
        for key in decisions.provision:
            self._claim_changed(key)
        for name, *_claim in decisions.bind:
            volume = self.volumes.get(name)
            if volume is not None:
                self._volume_changed(volume)

    def all_bound(self, pod_class: PodClass) -> bool:
        """Whether every claim of the pod is bound, and the volume's side is done, too."""
        if not self.concerns(pod_class):
            return True
        claims = list(self._claims_of(pod_class))
        return len(claims) == len(pod_class.claims) and all(claim.bound for claim in claims)
