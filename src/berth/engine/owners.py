"""Services and controllers, as far as default spreading asks which pods belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from berth.kube.objects import ReplicationController, Service, Workload
from berth.kube.selectors import NOTHING, Selector, parse_label_selector, selector_from_labels

if TYPE_CHECKING:
    from berth.engine.podclass import PodClass

_WORKLOAD_API = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


class Owners:
    """What selects pods, by namespace and name."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._controllers: dict[tuple[str, str, str], Selector] = {}

    def set_service(self, service: Service) -> None:
        meta = service.metadata
        in_namespace = self._services.setdefault(meta.namespace or "default", {})
        if service.spec.selector is None:  # selects nothing, unlike an empty selector
            in_namespace.pop(meta.name or "", None)
        else:
            in_namespace[meta.name or ""] = service.spec.selector

    def remove_service(self, namespace: str, name: str) -> None:
        self._services.get(namespace, {}).pop(name, None)

    def set_controller(self, kind: str, controller: Workload | ReplicationController) -> None:
        meta = controller.metadata
        if isinstance(controller, ReplicationController):
            selector = selector_from_labels(controller.spec.selector)
        else:
            selector = parse_label_selector(controller.spec.selector)
        self._controllers[kind, meta.namespace or "default", meta.name or ""] = selector

    def remove_controller(self, kind: str, namespace: str, name: str) -> None:
        self._controllers.pop((kind, namespace, name), None)

    def default_selector(self, pod_class: PodClass) -> Selector:
        """What the pod's services and its controller select together; everything if there are none."""
        merged: dict[str, str] = {}
        for selector in self._services.get(pod_class.namespace, {}).values():
            if selector_from_labels(selector).matches(pod_class.labels):
                merged.update(selector)
        owner = pod_class.owner
        if owner is not None and _WORKLOAD_API.get(owner.kind or "") == owner.api_version:
            key = (owner.kind or "", pod_class.namespace, owner.name or "")
            controller = self._controllers.get(key, NOTHING)
            if not controller.nothing:
                return selector_from_labels(merged).also(controller.requirements)
        return selector_from_labels(merged)
