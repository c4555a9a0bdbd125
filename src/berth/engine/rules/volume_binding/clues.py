"""The claims of a pod, their classes and volumes, and from how many nodes those can be reached."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.rules.near_misses import nearest
from berth.engine.rules.relaxing import Question
from berth.engine.state.volumes.needs import Needs


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
    index = question.cluster.volumes
    refusing = index.claim(question.pod_class.namespace, needs.refusing)
    claims = [*([refusing] if refusing is not None else ()), *(offer.claim for offer in needs.offers)]
    for name in dict.fromkeys(claim.storage_class for claim in claims if not claim.bound):
        if name and name not in index.classes:
            meant = nearest(name, index.classes)
            yield f"there is no StorageClass {name}" + (f"; {meant} is there" if meant else "")
    for offer in needs.offers:
        made = f"class {offer.claim.storage_class}" if offer.claim.storage_class else "no class"
        yield f"claim {offer.claim.name} is Pending and has {made}"
