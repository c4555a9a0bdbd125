"""Nodes that already hold the pod's images score higher."""

from __future__ import annotations

import numpy as np

from berth.engine.rules.base import MAX_SCORE, NodeRule
from berth.engine.state.columns import IntArray, Slots

_MIN_BYTES = 23 * 1024 * 1024
_MAX_BYTES_PER_IMAGE = 1000 * 1024 * 1024


class ImageLocality(NodeRule):
    name = "ImageLocality"
    audited = False
    recorded = False
    filters = False
    scores = True

    def raw(self, slots: Slots) -> IntArray:
        """The bytes present, each image scaled by the share of nodes that have it, from 0 to 100."""
        present = np.zeros(self.nodes.capacity, dtype=np.int64)
        for image in self.pod_class.images:
            sizes = self.nodes.images.get(image, {})
            spread = len(sizes) / max(self.nodes.live, 1)
            for slot, size in sizes.items():
                present[slot] += int(size * spread)
        spec = self.pod_class.spec
        counted = len(spec.init_containers or ()) + len(spec.containers or ())
        if self.pod_class.options.version.image_volumes_counted:
            counted = len(self.pod_class.images)
        highest = _MAX_BYTES_PER_IMAGE * counted
        if highest <= _MIN_BYTES:
            return np.zeros_like(present[slots])
        bounded = np.clip(present[slots], _MIN_BYTES, highest)
        return MAX_SCORE * (bounded - _MIN_BYTES) // (highest - _MIN_BYTES)
