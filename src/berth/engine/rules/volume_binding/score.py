"""How full the storage would be that a pod gets, storage class by storage class, which all count alike.

What its claims ask for, as a share of the volumes that they get, or of what is left for new ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from berth.engine.rules.node_resources_fit.score import shape_table
from berth.engine.state.columns import IndexArray, Int64Array, Slots
from berth.engine.state.volumes.csi import StorageRoom
from berth.engine.state.volumes.needs import Needs, Offer, Places, VolumeDecisions

_FULL = 100
# What a claim of a class asks for, and of how much, node by node.
_Share = tuple[int, Int64Array | int]


class StorageScore:
    """The score for what a pod needs, by the shape of its profile."""

    def __init__(self, needs: Needs, shape: tuple[tuple[int, int], ...]) -> None:
        self._needs = needs
        self._offers = {offer.claim.key: offer for offer in needs.offers}
        self._table = np.array(shape_table(shape), dtype=np.int64)

    def of_one(self, offer: Offer, count: int, places: Callable[[Places], Slots]) -> Int64Array:
        """A claim that competes with no other, on all nodes."""
        terms, wanted = self._needs.terms, offer.claim.wanted_bytes
        room = self._room(offer)
        of_room = np.full(count, -1, dtype=np.int64) if room is None else room.amounts()[:count]
        scores = np.where(of_room >= 0, self._scored(wanted, of_room), 0)
        for i in reversed(range(len(offer.volumes))):  # the smallest is taken
            scores[places(terms[offer.rows[i]])] = self._scored(wanted, offer.volumes[i].bytes)
        return scores

    def of(self, decisions: VolumeDecisions, slots: IndexArray) -> Int64Array:
        """What several claims get, alike on all these nodes."""
        shares: dict[str, _Share] = {}
        if decisions.bind:
            sizes = {each.name: each.bytes for offer in self._needs.offers for each in offer.volumes}
            for volume, namespace, name in decisions.bind:
                claim = self._offers[namespace, name].claim
                wanted, held = shares.get(claim.storage_class, (0, 0))
                shares[claim.storage_class] = (wanted + claim.wanted_bytes, held + sizes[volume])
        else:
            for provisioned in decisions.provision:
                offer = self._offers[provisioned]
                room = self._room(offer)
                if room is not None:
                    wanted, _ = shares.get(offer.claim.storage_class, (0, 0))
                    left = room.amounts()[slots]
                    shares[offer.claim.storage_class] = (wanted + offer.claim.wanted_bytes, left)
        total = np.zeros(len(slots), dtype=np.int64)
        for share in shares.values():
            total += self._scored(*share)
        # Rounded half up, as Go does with what is not negative.
        return (2 * total + len(shares)) // (2 * len(shares)) if shares else total

    def _room(self, offer: Offer) -> StorageRoom | None:
        found = None if offer.room is None else self._needs.terms[offer.room]
        return found if isinstance(found, StorageRoom) else None

    def _scored(self, wanted: int, held: Int64Array | int) -> Int64Array:
        amounts = np.asarray(held, dtype=np.int64)
        fits = (amounts > 0) & (wanted <= amounts)
        percent = np.where(fits, wanted * _FULL // np.maximum(amounts, 1), _FULL)
        return self._table[percent]
