"""The claims of a pod, their classes and volumes, and from how many nodes those can be reached."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.rules.changes import Question
from berth.engine.state.volumes.index import VolumeIndex
from berth.engine.state.volumes.needs import Needs
from berth.engine.state.volumes.objects import ClaimRecord
from berth.kube.text.near import nearest

_VOLUMES_SHOWN = 2


def clues(question: Question, needs: Needs) -> Iterator[str]:
    for claim, volume in needs.bound:
        if volume is None:
            yield f"claim {claim.name} is Bound to volume {claim.volume_name}, which is not there"
        elif volume.nodes is not None:
            reached = sum(
                volume.nodes.matches(node.metadata.labels or {}, name)
                for name, node in question.nodes.items()
            )
            nodes = "no node is" if not reached else "1 node is" if reached == 1 else f"{reached} nodes are"
            where = f"only for {volume.nodes}: {nodes} there"
            yield f"claim {claim.name} is Bound to volume {volume.name}, {where}"
    index, namespace = question.cluster.volumes, question.pod_class.namespace
    refusing = index.claim(namespace, needs.refusing)
    if refusing is None and needs.refusing:
        there = [name for where, name in index.claims if where == namespace]
        if meant := nearest(needs.refusing, there):
            yield f"there is no claim {needs.refusing}; {meant} is there"
    claims = [*([refusing] if refusing is not None else ()), *(offer.claim for offer in needs.offers)]
    for name in dict.fromkeys(claim.storage_class for claim in claims if not claim.bound):
        if name and name not in index.classes:
            meant = nearest(name, index.classes)
            yield f"there is no StorageClass {name}" + (f"; {meant} is there" if meant else "")
    for offer in needs.offers:
        made = f"class {offer.claim.storage_class}" if offer.claim.storage_class else "no class"
        yield f"claim {offer.claim.name} is Pending and has {made}{_unfit(index, offer.claim)}"
    if refusing is not None and not (refusing.lost or refusing.deleting) and (why := _unfit(index, refusing)):
        yield f"claim {refusing.name} is Pending{why}"


def _unfit(index: VolumeIndex, claim: ClaimRecord) -> str:
    """The volumes that a claim might have got, where none is made for it, and why it does not."""
    if claim.volume_name:
        named = index.volumes.get(claim.volume_name)
        if named is None:
            return f": it names volume {claim.volume_name}, which is not there"
        why = named.unfit_for(claim) if named.storage_class == claim.storage_class else "is of another class"
        return f": it names volume {named.name}, which {why}" if why else ""
    storage_class = index.classes.get(claim.storage_class)
    if storage_class is not None and storage_class.provisions:
        return ""
    alike = (volume for _, volume in sorted(index.volumes.items()))
    told = [
        f"volume {volume.name} {why}"
        for volume in alike
        if volume.storage_class == claim.storage_class
        and not (
            volume.claim is not None and volume.claim.key in index.claims and volume.claim.key != claim.key
        )
        and (why := volume.unfit_for(claim))
    ]
    more = f" and {len(told) - _VOLUMES_SHOWN} more" if len(told) > _VOLUMES_SHOWN else ""
    return "".join(f"; {words}" for words in told[:_VOLUMES_SHOWN]) + more
