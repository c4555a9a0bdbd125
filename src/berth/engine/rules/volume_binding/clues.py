"""The claims of a pod, the volumes they are bound to, and from how many nodes those can be reached."""

from __future__ import annotations

from collections.abc import Iterator

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
    for offer in needs.offers:
        made = f"class {offer.claim.storage_class}" if offer.claim.storage_class else "no class"
        yield f"claim {offer.claim.name} is Pending and has {made}"
