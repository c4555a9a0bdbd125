"""Services and controllers, as far as default spreading asks which pods belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from berth.engine.state.pod_class import PodClass
from berth.kube.objects import ReplicationController, Service, WorkloadBase
from berth.kube.selectors import NOTHING, Selector, parse_label_selector, selected_keys, selector_from_labels


class Owners:
    """What selects pods, by namespace and name."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._controllers: dict[tuple[str, str, str], Selector] = {}

    def set_service(self, service: Service) -> bool:
        """Take note of a service. True if what it selects has changed, as for the other methods."""
        meta = service.metadata
        namespace, name = meta.namespace or "default", meta.name or ""
        selector = service.spec.selector
        if selector is None:  # selects nothing, unlike an empty selector
            return self.remove("Service", namespace, name)
        in_namespace = self._services.setdefault(namespace, {})
        changed = in_namespace.get(name) != selector
        in_namespace[name] = selector
        return changed

    def set_controller(self, kind: str, controller: WorkloadBase | ReplicationController) -> bool:
        meta = controller.metadata
        if isinstance(controller, ReplicationController):
            selector = selector_from_labels(controller.spec.selector)
        else:
            selector = parse_label_selector(controller.spec.selector)
        key = (kind, meta.namespace or "default", meta.name or "")
        changed = self._controllers.get(key) != selector
        self._controllers[key] = selector
        return changed

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        if kind == "Service":
            return self._services.get(namespace, {}).pop(name, None) is not None
        return self._controllers.pop((kind, namespace, name), None) is not None

    def default_selector(self, pod_class: PodClass) -> Selector:
        """What the pod's services and its controller select together; everything if there are none."""
        merged: dict[str, str] = {}
        for selector in self._services.get(pod_class.namespace, {}).values():
            if selector_from_labels(selector).matches(pod_class.labels):
                merged.update(selector)
        if pod_class.owner is not None:
            kind, name = pod_class.owner
            controller = self._controllers.get((kind, pod_class.namespace, name), NOTHING)
            if not controller.nothing:
                return selector_from_labels(merged).also(controller.requirements)
        return selector_from_labels(merged)


def keys_selected_by(owner: Service | WorkloadBase | ReplicationController) -> Iterable[str]:
    """The labels that its selector looks at."""
    if isinstance(owner, (Service, ReplicationController)):
        return owner.spec.selector or ()
    return selected_keys(owner.spec.selector)
