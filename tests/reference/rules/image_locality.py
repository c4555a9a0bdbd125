"""ImageLocality: better a node that has the pod's images already, less so if few nodes have them."""

from berth.kube.objects import Node, Pod
from tests.reference.rules.scaling import MAX_SCORE, unscaled
from tests.reference.verdicts import Scores
from tests.reference.world import World, name_of

MEBIBYTE = 1024 * 1024
LEAST = 23 * MEBIBYTE
MOST_PER_CONTAINER = 1000 * MEBIBYTE


def images_on(node: Node) -> dict[str, int]:
    """Size in bytes by image name."""
    images = (node.status.images if node.status is not None else None) or []
    return {name: image.size_bytes or 0 for image in images for name in image.names or []}


def with_tag(image: str) -> str:
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


def images_of(pod: Pod) -> list[str]:
    containers = (pod.spec.init_containers or []) + (pod.spec.containers or [])
    names = [container.image or "" for container in containers]
    names += [volume.image.reference or "" for volume in pod.spec.volumes or [] if volume.image is not None]
    return [with_tag(name) for name in names]


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores:
    counted = len(pod.spec.init_containers or []) + len(pod.spec.containers or [])
    if world.args.version.image_volumes_counted:
        counted += len([volume for volume in pod.spec.volumes or [] if volume.image is not None])
    most = MOST_PER_CONTAINER * counted
    raw = {}
    for node in feasible:
        total = 0
        for image in images_of(pod):
            if image in images_on(node):
                spread = sum(image in images_on(other) for other in world.nodes) / len(world.nodes)
                total += int(images_on(node)[image] * spread)
        total = min(max(total, LEAST), most)
        raw[name_of(node)] = MAX_SCORE * (total - LEAST) // (most - LEAST)
    return unscaled(raw)
