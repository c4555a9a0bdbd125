"""NodeName: a pod that names its node runs there or nowhere."""

from berth.kube.objects import Pod
from tests.reference.verdicts import SUCCESS, UNRESOLVABLE, Rejections, Status
from tests.reference.world import World, name_of

REASON = "node(s) didn't match the requested node name"


def prefilter(world: World, pod: Pod) -> Status:
    del world
    wanted = pod.spec.node_name
    return Status(SUCCESS, node_names=frozenset((wanted,)) if wanted else None)


def reject(world: World, pod: Pod) -> Rejections:
    wanted = pod.spec.node_name
    return {
        name_of(n): Status(UNRESOLVABLE, (REASON,)) for n in world.nodes if wanted and name_of(n) != wanted
    }
