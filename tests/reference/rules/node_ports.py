"""NodePorts: two pods cannot have the same host port on the same address of a node."""

from berth.kube.objects import Container, Pod
from tests.reference.verdicts import SKIP, SUCCESS, UNSCHEDULABLE, Rejections, Status
from tests.reference.world import World, name_of

REASON = "node(s) didn't have free ports for the requested pod ports"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, never listened on

HostPort = tuple[str, str, int]  # address, protocol, port


def stays(init_container: Container) -> bool:
    """A sidecar: an init container that keeps running beside the others."""
    return init_container.restart_policy == "Always"


def host_ports(pod: Pod) -> list[HostPort]:
    running = [c for c in pod.spec.init_containers or [] if stays(c)] + (pod.spec.containers or [])
    return [
        (port.host_ip or EVERY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in running
        for port in container.ports or []
        if port.host_port is not None and port.host_port > 0
    ]


def collide(one: HostPort, other: HostPort) -> bool:
    same_address = one[0] == other[0] or EVERY_ADDRESS in (one[0], other[0])
    return same_address and one[1:] == other[1:]


def prefilter(_world: World, pod: Pod) -> Status:
    return Status(SUCCESS if host_ports(pod) else SKIP)


def reject(world: World, pod: Pod) -> Rejections:
    rejections = {}
    for node in world.nodes:
        taken = [port for other in world.pods_on(node) for port in host_ports(other)]
        if any(collide(wanted, port) for wanted in host_ports(pod) for port in taken):
            rejections[name_of(node)] = Status(UNSCHEDULABLE, (REASON,))
    return rejections
