"""Objects in both forms: the message a Go client writes, and the JSON it stands for."""

from __future__ import annotations

from typing import Any

from tests.server.protobuf.encoding import Message, meta, number, text

_SELECTOR: Message = {1: {"app": "web"}}
_PROBE_TAIL: Message = {2: 0, 3: 1, 4: 10, 5: 0, 6: 3}
_CONTAINER: Message = {
    1: "web",
    2: "nginx:1.25",
    3: ["nginx"],
    4: ["-g", ""],
    5: "",
    6: [{1: "http", 2: 0, 3: 80, 4: "TCP", 5: ""}],
    7: [
        {1: "EMPTY", 2: ""},
        {1: "TOKEN", 2: "", 3: {4: {1: {1: "tokens"}, 2: "web", 3: False}}},
        {1: "CPU", 2: "", 3: {2: {1: "", 2: "limits.cpu", 3: {1: "0"}}}},
    ],
    8: {1: {"cpu": {1: "500m"}, "memory": {1: "1Gi"}}, 2: {"cpu": {1: "0"}}},
    9: [{1: "scratch", 2: False, 3: "/scratch", 4: "", 6: ""}],
    10: {1: {2: {1: "/healthz", 2: text("http"), 3: "", 4: "HTTP"}}, **_PROBE_TAIL},
    11: {1: {3: {1: number(8080), 2: ""}}, **_PROBE_TAIL, 7: 0},
    12: {2: {1: {1: ["sleep", "5"]}}},
    13: "",
    14: "",
    15: {3: {}, 4: -1, 7: False},
    16: False,
    18: True,
}
_CONTAINER_JSON: dict[str, Any] = {
    "name": "web",
    "image": "nginx:1.25",
    "command": ["nginx"],
    "args": ["-g", ""],
    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
    "env": [
        {"name": "EMPTY"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "web", "optional": False}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
    ],
    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "0"}},
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "livenessProbe": {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "failureThreshold": 3,
    },
    "readinessProbe": {
        "tcpSocket": {"port": 8080},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "failureThreshold": 3,
        "terminationGracePeriodSeconds": 0,
    },
    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
    "securityContext": {"seLinuxOptions": {}, "runAsUser": -1, "allowPrivilegeEscalation": False},
    "tty": True,
}
_POD_SPEC: Message = {
    1: [
        {1: "scratch", 2: {2: {1: "", 2: {1: "64Mi"}}}},
        {1: "plain", 2: {2: {1: ""}}},
        {1: "config", 2: {19: {1: {1: "settings"}, 2: [{1: "a", 2: "b", 3: 0}], 3: 420}}},
    ],
    2: [_CONTAINER],
    3: "Always",
    4: 0,
    6: "",
    7: {"disk": "ssd", "empty": ""},
    8: "",
    9: "",
    10: "",
    11: True,
    12: False,
    13: False,
    14: {2: 1000, 4: [1, 2]},
    16: "",
    17: "",
    18: {
        1: {
            1: {
                1: [{1: [{1: "zone", 2: "In", 3: ["a", "b"]}]}, {2: [{1: "metadata.name", 2: "In", 3: "n"}]}]
            },
            2: [{1: 5, 2: {1: [{1: "disk", 2: "Exists"}]}}],
        },
        3: {1: [{1: _SELECTOR, 3: "kubernetes.io/hostname", 4: {}}]},
    },
    19: "berth",
    21: False,
    22: [{1: "dedicated", 2: "", 3: "", 4: "NoExecute", 5: 0}, {1: "", 2: "Exists", 3: "", 4: ""}],
    24: "",
    33: [{1: 1, 2: "zone", 3: "DoNotSchedule", 4: _SELECTOR, 5: 2, 8: ["pod-template-hash"]}],
}
_POD_SPEC_JSON: dict[str, Any] = {
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": "plain", "emptyDir": {}},
        {
            "name": "config",
            "configMap": {
                "name": "settings",
                "items": [{"key": "a", "path": "b", "mode": 0}],
                "defaultMode": 420,
            },
        },
    ],
    "containers": [_CONTAINER_JSON],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 0,
    "nodeSelector": {"disk": "ssd", "empty": ""},
    "hostNetwork": True,
    "securityContext": {"runAsUser": 1000, "supplementalGroups": [1, 2]},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "topologyKey": "kubernetes.io/hostname",
                    "namespaceSelector": {},
                }
            ]
        },
    },
    "schedulerName": "berth",
    "automountServiceAccountToken": False,
    "tolerations": [
        {"key": "dedicated", "effect": "NoExecute", "tolerationSeconds": 0},
        {"operator": "Exists"},
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "minDomains": 2,
            "matchLabelKeys": ["pod-template-hash"],
        }
    ],
}
DEPLOYMENT: Message = {
    1: meta("web", labels={"app": "web"}),
    2: {
        1: 0,
        2: {1: {"app": "web"}, 2: [{1: "tier", 2: "NotIn", 3: ["x"]}]},
        3: {1: meta("", labels={"app": "web"}), 2: _POD_SPEC},
        4: {1: "RollingUpdate", 2: {1: text("25%"), 2: number(0)}},
        5: 0,
        7: False,
        9: 600,
    },
    3: {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 7: 0},
}
DEPLOYMENT_JSON: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 0,
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}],
        },
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": _POD_SPEC_JSON},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}},
        "progressDeadlineSeconds": 600,
    },
}
