"""Which pods belong together, for pods that come without topology spread constraints of their own."""

from berth.kube.objects import Labels, OwnerReference, Pod, ReplicationController, Workload
from berth.kube.selectors import Selector, parse_label_selector, selector_from_labels
from tests.reference.world import World, labels_of, name_of, namespace_of


def controller_of(pod: Pod) -> OwnerReference:
    owners = pod.metadata.owner_references or []
    return next((owner for owner in owners if owner.controller), OwnerReference())


def owner_among(
    things: list[Workload] | list[ReplicationController], pod: Pod
) -> Workload | ReplicationController | None:
    for thing in things:
        if namespace_of(thing) == namespace_of(pod) and name_of(thing) == controller_of(pod).name:
            return thing
    return None


def service_labels(world: World, pod: Pod) -> Labels:
    """The selectors of all services for this pod, together."""
    together: Labels = {}
    for service in world.services:
        selector = service.spec.selector
        if selector is None or namespace_of(service) != namespace_of(pod):
            continue
        if selector_from_labels(selector).matches(labels_of(pod)):
            together |= selector
    return together


def siblings(world: World, pod: Pod) -> Selector:
    """Selects the pods of the same services and the same controller; everything if there are neither."""
    selector = selector_from_labels(service_labels(world, pod))
    controllers: dict[tuple[str | None, str | None], list[Workload] | list[ReplicationController]] = {
        ("v1", "ReplicationController"): world.replication_controllers,
        ("apps/v1", "ReplicaSet"): world.replica_sets,
        ("apps/v1", "StatefulSet"): world.stateful_sets,
    }
    owner = controller_of(pod)
    found = owner_among(controllers.get((owner.api_version, owner.kind), []), pod)
    if isinstance(found, ReplicationController):
        return selector_from_labels(service_labels(world, pod) | (found.spec.selector or {}))
    if found is not None:
        return selector.also(parse_label_selector(found.spec.selector).requirements)
    return selector
