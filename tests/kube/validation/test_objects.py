"""Nodes, namespaces and workloads: bad input is named."""

from __future__ import annotations

import pytest

from berth.kube.manifests.kinds import view_of
from berth.kube.validation.objects import validate
from tests.kube import written

TEMPLATE = "template: {metadata: {labels: {a: x}}, spec: {containers: [{name: c, image: i}]}}"
SELECTOR = "selector: {matchLabels: {a: x}}"


def errors(kind: str, text: str) -> list[str]:
    view = view_of("", kind)
    assert view is not None
    metadata = "" if text.startswith("metadata:") else "metadata: {name: web, namespace: default}, "
    return [str(error) for error in validate(written.view(view, f"{{{metadata}{text}}}"))]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Deployment", f"spec: {{{SELECTOR}, {TEMPLATE}}}"),
        ("ReplicationController", f"spec: {{{TEMPLATE}}}"),
        ("Job", f"spec: {{{TEMPLATE}}}"),
        ("CronJob", f"spec: {{jobTemplate: {{spec: {{{TEMPLATE}}}}}}}"),
        ("Service", "spec: {selector: {a: x}}"),
        ("PodDisruptionBudget", f"spec: {{{SELECTOR}, minAvailable: 50%}}"),
        ("Pod", "spec: {containers: [{name: c, image: i}]}"),
        # Only pods must not have blanks around an image; in a template one may stand for what comes.
        ("Deployment", f"spec: {{{SELECTOR}, {TEMPLATE.replace('image: i', 'image: ' + repr(' i '))}}}"),
        ("PriorityClass", "metadata: {name: a}, value: 3"),
        (
            "Node",
            "metadata: {name: n1}, spec: {taints: [{key: a, effect: NoSchedule}]}",
        ),
        ("Namespace", "metadata: {name: prod}"),
    ],
)
def test_what_is_fine(kind: str, text: str) -> None:
    """A minimal object of every kind is valid."""
    assert errors(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("Node", "metadata: {name: N1}", "metadata.name: Invalid value"),
        (
            "Node",
            "metadata: {name: n1, namespace: a}",
            "metadata.namespace: Forbidden: not allowed on this type",
        ),
        ("Node", "metadata: {name: n1}, status: {capacity: {cpu: 1x}}", "status.capacity.cpu: Invalid value"),
        ("Node", "metadata: {name: n1}, status: {allocatable: {pods: 1.5}}", "must be an integer"),
        ("Node", "metadata: {name: n1}, spec: {taints: [{key: a}]}", "spec.taints[0].effect: Required value"),
        (
            "Node",
            "metadata: {name: n1}, spec: {taints: [{key: a, effect: Never}]}",
            'effect: Unsupported value: "Never"',
        ),
        (
            "Node",
            "metadata: {name: a}, spec: {taints: [{key: a, effect: NoExecute}, {key: a, effect: NoExecute}]}",
            "spec.taints[1]: Duplicate value",
        ),
        ("Namespace", "metadata: {name: a.b}", 'metadata.name: Invalid value: "a.b": must not contain dots'),
        ("Deployment", f"spec: {{{TEMPLATE}}}", "spec.selector: Required value"),
        ("Deployment", f"spec: {{{SELECTOR}}}", "spec.template.spec: Required value"),
        ("Deployment", f"spec: {{{SELECTOR}, {TEMPLATE}, replicas: -1}}", "spec.replicas: Invalid value: -1"),
        ("Job", f"spec: {{{TEMPLATE}, parallelism: -1}}", "spec.parallelism: Invalid value: -1"),
        ("CronJob", "spec: {}", "spec.jobTemplate.spec: Required value"),
        ("Job", "spec: {template: {spec: {}}}", "spec.template.spec.containers: Required value"),
        ("Service", "spec: {selector: {a: -}}", "spec.selector: Invalid value"),
        (
            "PodDisruptionBudget",
            "spec: {minAvailable: 1, maxUnavailable: 1}",
            "minAvailable and maxUnavailable cannot be both set",
        ),
    ],
)
def test_what_is_not(kind: str, text: str, expected: str) -> None:
    """The field is named, and what is wrong with it."""
    assert any(expected in error for error in errors(kind, text))
