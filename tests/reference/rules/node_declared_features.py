"""NodeDeclaredFeatures: a pod that relies on a feature of the kubelet runs where that is declared."""

from berth.kube.objects import Node, Pod
from tests.reference.verdicts import SKIP, SUCCESS, UNRESOLVABLE, Rejections, Status
from tests.reference.world import World, name_of

REASON = "node(s) didn't match Pod's required features"


def wanted(pod: Pod) -> set[str]:
    found = set()
    for container in (pod.spec.containers or []) + (pod.spec.init_containers or []):
        for rule in container.restart_policy_rules or []:
            if rule.action == "RestartAllContainers":
                found.add("RestartAllContainersOnContainerExits")
    if pod.spec.host_network and pod.spec.host_users is False:
        found.add("UserNamespacesHostNetworkSupport")
    return found


def declared(node: Node) -> set[str]:
    return set((node.status.declared_features if node.status is not None else None) or [])


def prefilter(world: World, pod: Pod) -> Status:
    del world
    return Status(SUCCESS if wanted(pod) else SKIP)


def reject(world: World, pod: Pod) -> Rejections:
    return {
        name_of(node): Status(UNRESOLVABLE, (REASON,))
        for node in world.nodes
        if not wanted(pod) <= declared(node)
    }
