"""Which pods are spread together: what constraints say, and whose pods the default ones are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.engine.state.pod_class import PodClass
from berth.kube.objects import ReplicationController, Service, TopologySpreadConstraint, WorkloadBase
from berth.kube.selectors import (
    NOTHING,
    Requirement,
    Selector,
    parse_label_selector,
    selected_keys,
    selector_from_labels,
)

HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as the scheduler reads it."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honor_affinity: bool
    honor_taints: bool
    path: str


def read_constraints(
    constraints: Sequence[TopologySpreadConstraint],
    pod_class: PodClass,
    action: str,
    selector: Selector | None = None,
    path: str = "spec.topologySpreadConstraints",
) -> list[Constraint]:
    """The constraints with the given `whenUnsatisfiable`; `selector` replaces theirs (for defaults)."""
    return [
        Constraint(
            topology_key=c.topology_key or "",
            max_skew=c.max_skew or 0,
            min_domains=1 if c.min_domains is None else c.min_domains,
            selector=_with_label_keys(c, pod_class) if selector is None else selector,
            honor_affinity=(c.node_affinity_policy or HONOR) == HONOR,
            honor_taints=c.node_taints_policy == HONOR,
            path=f"{path}[{i}]",
        )
        for i, c in enumerate(constraints)
        if c.when_unsatisfiable == action
    ]


def _with_label_keys(constraint: TopologySpreadConstraint, pod_class: PodClass) -> Selector:
    selector = parse_label_selector(constraint.label_selector)
    if selector.nothing:
        return selector
    labels = pod_class.labels
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    return selector.also(Requirement(key, "In", frozenset((labels[key],))) for key in keys)


# --- services and controllers, as far as default spreading asks which pods belong together --------


class Owners:
    """What selects pods, by namespace and name."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._controllers: dict[tuple[str, str, str], Selector] = {}

    def set(self, owner: Service | WorkloadBase | ReplicationController, kind: str | None) -> bool:
        """Take note of a service or a controller. True if what it selects has changed, as for `remove`."""
        namespace, name = owner.metadata.namespace or "default", owner.metadata.name or ""
        if isinstance(owner, Service):
            if owner.spec.selector is None:  # selects nothing, unlike an empty selector
                return self.remove("Service", namespace, name)
            services = self._services.setdefault(namespace, {})
            changed = services.get(name) != owner.spec.selector
            services[name] = owner.spec.selector
            return changed
        if isinstance(owner, ReplicationController):
            key, selector = "ReplicationController", selector_from_labels(owner.spec.selector)
        else:
            key, selector = kind or owner.kind or "", parse_label_selector(owner.spec.selector)
        changed = self._controllers.get((key, namespace, name)) != selector
        self._controllers[key, namespace, name] = selector
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
