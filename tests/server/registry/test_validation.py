"""What kinds refuse that nobody here acts upon: the words are kube-apiserver's, recorded from v1.36."""

from __future__ import annotations

import pytest

from tests.support.api.client import Client, Json

_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}


def path_of(space: str, plural: str) -> str:
    group = {"poddisruptionbudgets": "policy/v1", "networkpolicies": "networking.k8s.io/v1"}
    group["horizontalpodautoscalers"] = "autoscaling/v2"
    return (
        f"{space}/{plural}"
        if plural not in group
        else (f"{space}/{plural}".replace("/api/v1", f"/apis/{group[plural]}"))
    )


def resource(share: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": share}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@pytest.mark.parametrize(
    ("plural", "body", "message"),
    [
        ("configmaps", {"data": {"a b": ""}}, f'data[a b]: Invalid value: "a b": {_KEY}'),
        ("configmaps", {"data": {"..": ""}}, """data[..]: Invalid value: "..": must not be '..'"""),
        (
            "configmaps",
            {"data": {"..a": ""}},
            """data[..a]: Invalid value: "..a": must not start with '..'""",
        ),
        (
            "configmaps",
            {"data": {"a": ""}, "binaryData": {"a": "eA=="}},
            'data[a]: Invalid value: "a": duplicate of key present in binaryData',
        ),
        ("configmaps", {"data": {"a": "x" * 1_100_000}}, "[]: Too long: may not be more than 1048576 bytes"),
        (
            "secrets",
            {"stringData": {"a": "x" * 1_060_000}},
            "data: Too long: may not be more than 1048576 bytes",
        ),
        ("secrets", {"data": {"a/b": "eA=="}}, f'data[a/b]: Invalid value: "a/b": {_KEY}'),
        (
            "secrets",
            {"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}},
            "data[tls.key]: Required value",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/basic-auth"},
            "[data[username]: Required value, data[password]: Required value]",
        ),
        ("secrets", {"type": "kubernetes.io/ssh-auth"}, "data[ssh-privatekey]: Required value"),
        (
            "poddisruptionbudgets",
            {"spec": {"minAvailable": "150%"}},
            'spec.minAvailable: Invalid value: "150%": must not be greater than 100%',
        ),
        (
            "poddisruptionbudgets",
            {"spec": {"maxUnavailable": "50"}},
            f'spec.maxUnavailable: Invalid value: "50": {_PERCENT}',
        ),
        (
            "poddisruptionbudgets",
            {"spec": {"minAvailable": -1}},
            "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "poddisruptionbudgets",
            {"spec": {"unhealthyPodEvictionPolicy": "Nope"}},
            (
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Nope": supported values: '
                '"AlwaysAllow", "IfHealthyBudget"'
            ),
        ),
        (
            "networkpolicies",
            {"spec": {"policyTypes": ["Nope"]}},
            'spec.policyTypes[0]: Unsupported value: "Nope": supported values: "Ingress", "Egress"',
        ),
        (
            "networkpolicies",
            {"spec": {"ingress": [{"from": [{}]}]}},
            "spec.ingress[0].from[0]: Required value: must specify a peer",
        ),
        (
            "networkpolicies",
            {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "nope"}}]}]}},
            (
                'spec.egress[0].to[0].ipBlock.cidr: Invalid value: "nope": must be a valid CIDR value, '
                "(e.g. 10.9.8.0/24 or 2001:db8::/64)"
            ),
        ),
        (
            "horizontalpodautoscalers",
            {"spec": {"scaleTargetRef": _TARGET, "maxReplicas": 3, "minReplicas": 5}},
            "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
        ),
        (
            "horizontalpodautoscalers",
            {"spec": {"scaleTargetRef": _TARGET, "maxReplicas": 3, "metrics": [resource(0)]}},
            "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
        ),
        (
            "horizontalpodautoscalers",
            {"spec": {"maxReplicas": 3}},
            (
                "[spec.scaleTargetRef.kind: Required value, spec.scaleTargetRef.name: Required value, "
                'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group]'
            ),
        ),
    ],
)
def test_refused(client: Client, space: str, plural: str, body: Json, message: str) -> None:
    """What a kube-apiserver refuses is refused in its words."""
    answer = client.post(path_of(space, plural), {"metadata": {"name": "x"}, **body})
    assert answer.status == 422
    assert answer.message.endswith(f' "x" is invalid: {message}')


def test_directions_of_a_network_policy(client: Client, space: str) -> None:
    """One that does not say is about what comes in, and about what goes out if it has rules for that."""
    made = client.made(
        path_of(space, "networkpolicies"), {"metadata": {"name": "a"}, "spec": {"podSelector": {}}}
    )
    assert made["spec"]["policyTypes"] == ["Ingress"]
    spec = {"podSelector": {}, "egress": [{"ports": [{"port": 80}]}]}
    made = client.made(path_of(space, "networkpolicies"), {"metadata": {"name": "b"}, "spec": spec})
    assert made["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert made["spec"]["egress"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]


def test_defaults_of_an_autoscaler(client: Client, space: str) -> None:
    """An autoscaler goes by the processors by default, and has one replica at least."""
    spec = {"scaleTargetRef": _TARGET, "maxReplicas": 3}
    made = client.made(path_of(space, "horizontalpodautoscalers"), {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"]["minReplicas"] == 1
    assert made["spec"]["metrics"] == [resource(80)]
