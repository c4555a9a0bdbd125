"""Objects for the tests of `berth lint`, as short as they can be written."""

from __future__ import annotations

from typing import Any

from tests.support.builders import HOSTNAME, REQUIRED, ZONE

Object = dict[str, Any]

HPA: Object = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 9,
    },
}


def node(name: str, zone: str | None = "a", *, taints: list[Object] | None = None, **labels: str) -> Object:
    given = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": given},
        "spec": {"taints": taints or []},
        "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


def nodes(number: int, zones: str = "abc") -> list[Object]:
    return [node(f"n{i}", zones[i % len(zones)]) for i in range(number)]


def template(labels: Object | None = None, cpu: str | None = None, **spec: Any) -> Object:
    container: Object = {"name": "c", "image": "i"}
    if cpu is not None:
        container["resources"] = {"requests": {"cpu": cpu}}
    return {
        "metadata": {"labels": {"app": "web"} if labels is None else labels},
        "spec": {"containers": [container], **spec},
    }


def deployment(
    name: str = "web",
    replicas: int | None = 2,
    *,
    strategy: Object | None = None,
    labels: Object | None = None,
    cpu: str | None = None,
    kind: str = "Deployment",
    **spec: Any,
) -> Object:
    labels = {"app": name} if labels is None else labels
    body: Object = {"selector": {"matchLabels": labels}, "template": template(labels, cpu, **spec)}
    if replicas is not None and kind != "DaemonSet":
        body["replicas"] = replicas
    if strategy is not None:
        body["updateStrategy" if kind == "DaemonSet" else "strategy"] = strategy
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def pod(name: str = "p", labels: Object | None = None, **spec: Any) -> Object:
    body = template(labels or {}, **spec)
    metadata = {**body["metadata"], "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body["spec"]}


def annotated(obj: Object, *, template: bool = False, **values: str) -> Object:
    """An object, or its template, with annotations of Berth's."""
    place = obj["spec"]["template"]["metadata"] if template else obj["metadata"]
    place["annotations"] = {f"berth.dev/{name.replace('_', '-')}": value for name, value in values.items()}
    return obj


def term(app: str = "web", key: str = HOSTNAME, **more: Any) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def together(*terms: Object) -> Object:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Object, kind: str = REQUIRED) -> Object:
    return {"affinity": {"podAntiAffinity": {kind: list(terms)}}}


def on_nodes(*expressions: Object, kind: str = REQUIRED) -> Object:
    terms = [{"matchExpressions": list(expressions)}]
    return {"affinity": {"nodeAffinity": {kind: {"nodeSelectorTerms": terms}}}}


def within(key: str, *values: str, operator: str = "In") -> Object:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def spread(key: str = ZONE, app: str = "web", *, hard: bool = True, **more: Any) -> Object:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


def budget(name: str = "keep", app: str = "web", **spec: Any) -> Object:
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": selector, **spec},
    }


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def policy(placement: Object | None = None, **selector: Any) -> Object:
    selected = {"apiVersion": "apps/v1", "kind": "Deployment", **selector}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [selected], "placement": placement or {}},
    }
