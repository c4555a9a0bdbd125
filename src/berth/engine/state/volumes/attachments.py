"""The VolumeAttachments of a cluster, each as the volume that its driver counts on a node.

A volume stays attached for a while after its last pod has left, and takes its place for as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from berth.engine.state.volumes.csi import CsiIndex, CsiVolume
from berth.engine.state.volumes.objects import VolumeRecord
from berth.kube import objects


class _Attachment(NamedTuple):
    driver: str
    node: str
    volume: str  # the name of the PersistentVolume


class VolumeAttachments:
    """Keeps an index of drivers in step with the attachments, and with the volumes that they name."""

    def __init__(self, csi: CsiIndex, volumes: Mapping[str, VolumeRecord]) -> None:
        self._csi = csi
        self._volumes = volumes
        self._known: dict[str, _Attachment] = {}
        self._counted: dict[str, CsiVolume] = {}
        self._of: dict[str, set[str]] = {}  # by the volume's name

    def set(self, attachment: objects.VolumeAttachment) -> bool:
        """Take over an attachment; True if placement can see a difference."""
        name, spec = attachment.metadata.name or "", attachment.spec
        source = spec.source.persistent_volume_name if spec.source else None
        new = _Attachment(spec.attacher or "", spec.node_name or "", source or "")
        if self._known.get(name) == new:
            return False
        changed = self.remove(name) is not None
        self._known[name] = new
        self._of.setdefault(new.volume, set()).add(name)
        self._count(name)
        return changed or name in self._counted

    def remove(self, name: str) -> str | None:
        """Forget an attachment; the name of the node that has a place more by it, if one has."""
        old = self._known.pop(name, None)
        if old is None:
            return None
        self._of[old.volume].discard(name)
        if not self._of[old.volume]:
            del self._of[old.volume]
        volume = self._counted.pop(name, None)
        if volume is None:
            return None
        self._csi.attach(old.node, volume, -1)
        return old.node

    def volume_changed(self, name: str) -> None:
        """The volume of this name may have another handle, or be gone."""
        for attachment in self._of.get(name, ()):
            volume = self._counted.pop(attachment, None)
            if volume is not None:
                self._csi.attach(self._known[attachment].node, volume, -1)
            self._count(attachment)

    def _count(self, name: str) -> None:
        driver, node, volume = self._known[name]
        found = self._volumes.get(volume)
        if driver and found is not None and found.csi is not None and not found.in_tree:
            self._counted[name] = CsiVolume(driver, found.csi[1])
            self._csi.attach(node, self._counted[name], 1)
