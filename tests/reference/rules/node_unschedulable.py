"""NodeUnschedulable: cordoned nodes take only pods that tolerate the taint which cordoning stands for."""

from berth.kube.objects import Pod, Taint
from tests.reference.rules.taint_toleration import tolerated
from tests.reference.verdicts import UNRESOLVABLE, Rejections, Status
from tests.reference.world import World, name_of

REASON = "node(s) were unschedulable"
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def reject(world: World, pod: Pod) -> Rejections:
    return {
        name_of(node): Status(UNRESOLVABLE, (REASON,))
        for node in world.nodes
        if node.spec is not None and node.spec.unschedulable and not tolerated(CORDONED, pod)
    }
