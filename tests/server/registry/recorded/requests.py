"""Objects that are sent to an API server to see what it says: most have one thing wrong with them.

The answers of a real kube-apiserver are in ``answers.json`` beside this (`python -m
tests.server.registry.recorded.recording` writes it).
"""

from __future__ import annotations

from typing import Any

from tests.server.registry.recorded.pods import PODS, pod

Object = dict[str, Any]

_IN = "namespaces/default"
PATHS = {
    "ConfigMap": ("v1", f"/api/v1/{_IN}/configmaps"),
    "Secret": ("v1", f"/api/v1/{_IN}/secrets"),
    "Pod": ("v1", f"/api/v1/{_IN}/pods"),
    "Service": ("v1", f"/api/v1/{_IN}/services"),
    "Endpoints": ("v1", f"/api/v1/{_IN}/endpoints"),
    "EndpointSlice": ("discovery.k8s.io/v1", f"/apis/discovery.k8s.io/v1/{_IN}/endpointslices"),
    "Ingress": ("networking.k8s.io/v1", f"/apis/networking.k8s.io/v1/{_IN}/ingresses"),
    "NetworkPolicy": ("networking.k8s.io/v1", f"/apis/networking.k8s.io/v1/{_IN}/networkpolicies"),
    "PodDisruptionBudget": ("policy/v1", f"/apis/policy/v1/{_IN}/poddisruptionbudgets"),
    "HorizontalPodAutoscaler": (
        "autoscaling/v2",
        f"/apis/autoscaling/v2/{_IN}/horizontalpodautoscalers",
    ),
    "Deployment": ("apps/v1", f"/apis/apps/v1/{_IN}/deployments"),
    "StatefulSet": ("apps/v1", f"/apis/apps/v1/{_IN}/statefulsets"),
    "DaemonSet": ("apps/v1", f"/apis/apps/v1/{_IN}/daemonsets"),
    "ReplicaSet": ("apps/v1", f"/apis/apps/v1/{_IN}/replicasets"),
    "Job": ("batch/v1", f"/apis/batch/v1/{_IN}/jobs"),
    "CronJob": ("batch/v1", f"/apis/batch/v1/{_IN}/cronjobs"),
}
_LONG = "x" * 254


def _named(kind: str, bodies: dict[str, Object]) -> list[Object]:
    """Objects of a kind by name; what they have in common is filled in."""
    api_version = PATHS[kind][0]
    return [
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}
        for name, body in bodies.items()
    ]


def _specs(kind: str, common: Object, bodies: dict[str, Object]) -> list[Object]:
    return _named(kind, {name: {"spec": {**common, **body}} for name, body in bodies.items()})


# --- what pods are made of ------------------------------------------------------------------------


def _template(container: Object | None = None, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, **pod(container, **spec)}
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template}


def _job(container: Object | None = None, **spec: Any) -> Object:
    return {"template": pod(container, **{"restartPolicy": "Never", **spec})}


_BAD = {"env": [{"name": ""}], "imagePullPolicy": "X"}


def _rolled(field: str, **figures: Any) -> Object:
    return {field: {"rollingUpdate": figures}}


_DEPLOYMENTS: dict[str, Object] = {
    "d1": {"strategy": {"type": "X"}},
    "d2": _rolled("strategy", maxSurge=0, maxUnavailable=0),
    "d3": _rolled("strategy", maxSurge=-1, maxUnavailable="x"),
    "d4": _rolled("strategy", maxSurge="200%", maxUnavailable="200%"),
    "d5": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
    "d6": {"replicas": -1, "minReadySeconds": -1, "revisionHistoryLimit": -1},
    "d7": {"minReadySeconds": 600},
    "d8": {"progressDeadlineSeconds": -1},
    "d9": {"selector": {"matchLabels": {}}},
    "d10": {"selector": {"matchLabels": {"a": "c"}}},
    "d11": {"selector": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
    "d12": {"strategy": {"type": "Recreate"}, "replicas": 0},
    "d13": _rolled("strategy", maxSurge="0%", maxUnavailable="0%"),
    "d14": {"strategy": {"type": ""}},
}
_DAEMON_SETS: dict[str, Object] = {
    "ds1": {"updateStrategy": {"type": "X"}},
    "ds2": _rolled("updateStrategy", maxSurge=0, maxUnavailable=0),
    "ds3": _rolled("updateStrategy", maxSurge=1),
    "ds4": _rolled("updateStrategy", maxSurge=1, maxUnavailable=0),
    "ds5": _rolled("updateStrategy", maxSurge="101%", maxUnavailable="0%"),
    "ds6": _rolled("updateStrategy", maxSurge=-1, maxUnavailable="x"),
    "ds7": {"updateStrategy": {"type": "OnDelete"}},
    "ds8": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": -1}}},
    "ds9": {"minReadySeconds": -1, "revisionHistoryLimit": -1},
    "ds10": _template({}, activeDeadlineSeconds=5),
    "ds11": _template({}, restartPolicy="Never"),
}
_STATEFUL_SETS: dict[str, Object] = {
    "ss1": {"updateStrategy": {"type": "X"}},
    "ss2": _rolled("updateStrategy", partition=-1),
    "ss3": _rolled("updateStrategy", maxUnavailable=0),
    "ss4": _rolled("updateStrategy", maxUnavailable="x"),
    "ss5": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
    "ss6": {"podManagementPolicy": "X", "replicas": -1, "minReadySeconds": -1},
    "ss7": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "X"}},
    "ss8": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}},
    "ss9": {"ordinals": {"start": -1}, "serviceName": "A_"},
    "ss10": _template({}, activeDeadlineSeconds=5, restartPolicy="Never"),
    "ss11": {"updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": -1},
}
_REPLICA_SETS: dict[str, Object] = {
    "rs1": {"replicas": -1, "minReadySeconds": -1},
    "rs2": {"selector": {"matchLabels": {"a": "c"}}},
    "rs3": {"selector": {}},
    "rs4": _template({}, restartPolicy="Never", activeDeadlineSeconds=5),
}
_INDEXED = {"completionMode": "Indexed", "completions": 2}
_TRUE = {"type": "DisruptionTarget", "status": "True"}


def _failing(**rule: Any) -> Object:
    return {"podFailurePolicy": {"rules": [rule]}}


_JOBS: dict[str, Object] = {
    "j1": {"parallelism": -1, "completions": -1, "backoffLimit": -1},
    "j2": {"activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1},
    "j3": {"completionMode": "X"},
    "j4": {"completionMode": "Indexed"},
    "j5": {"completionMode": "Indexed", "completions": 2, "parallelism": 200_000},
    "j6": _job(restartPolicy="Always"),
    "j7": {"podReplacementPolicy": "X"},
    "j8": {"backoffLimitPerIndex": 1},
    "j9": {"suspend": True, "manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
    "j10": {"podFailurePolicy": {"rules": [{"action": "X"}]}},
    "j11": {"maxFailedIndexes": 1},
    "j12": {"managedBy": "a b"},
    "j13": {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": -1, "maxFailedIndexes": 9},
    "j14": {"successPolicy": {"rules": [{"succeededCount": 1}]}},
    "j15": {"podReplacementPolicy": "TerminatingOrFailed", "podFailurePolicy": {"rules": []}},
    "j16": {"parallelism": 0, "completions": 0},
    "j17": _failing(action="FailIndex", onExitCodes={"operator": "In", "values": [3, 2, 2, 0]}),
    "j18": _failing(action="", onExitCodes={"operator": "", "values": [], "containerName": "x"}),
    "j19": _failing(
        action="Ignore",
        onExitCodes={"operator": "X", "values": [1]},
        onPodConditions=[{"type": "a b", "status": "X"}, {"type": "Ready"}],
    ),
    "j20": {**_job(restartPolicy="OnFailure"), **_failing(action="Ignore", onPodConditions=[_TRUE])},
    "j21": _failing(action="Count", onPodConditions=[{**_TRUE, "status": ""}]),
    "j22": {**_INDEXED, "successPolicy": {"rules": []}},
    "j23": {**_INDEXED, "successPolicy": {"rules": [{}, {"succeededCount": 9}, {"succeededCount": -1}]}},
    "j24": {**_INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
    "j25": {"managedBy": "", "ttlSecondsAfterFinished": 0},
    "j26": {"managedBy": "A_/x"},
}


def _cron(**spec: Any) -> Object:
    return {"schedule": "* * * * *", "jobTemplate": {"spec": _job()}, **spec}


_CRON_JOBS: dict[str, Object] = {
    "cj1": _cron(schedule="x"),
    "cj2": _cron(schedule=""),
    "cj3": _cron(schedule="TZ=UTC * * * * *"),
    "cj4": _cron(concurrencyPolicy="X"),
    "cj5": _cron(startingDeadlineSeconds=-1),
    "cj6": _cron(successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1),
    "cj7": _cron(timeZone="Nowhere/At"),
    "cj8": _cron(timeZone=""),
    "cj9": _cron(jobTemplate={"spec": {**_job(), "parallelism": -1}}),
    "cj10": _cron(jobTemplate={"spec": _job(restartPolicy="Always")}),
    "cj11": _cron(schedule="@hourly", timeZone="Europe/Berlin"),
    "cj12": _cron(schedule="61 * * * *"),
    "cj13": _cron(suspend=True, concurrencyPolicy="Replace"),
    "cj14": _cron(timeZone="local"),
}
_WORKLOADS = [
    *_specs("Job", _job(), _JOBS),
    *_specs("CronJob", {}, _CRON_JOBS),
    *_specs("Deployment", _template(), _DEPLOYMENTS),
    *_specs("DaemonSet", _template(), _DAEMON_SETS),
    *_specs("StatefulSet", {"serviceName": "s", **_template()}, _STATEFUL_SETS),
    *_specs("ReplicaSet", _template(), _REPLICA_SETS),
    *_specs("Deployment", {}, {"t1": _template(_BAD), "t2": _template({}, dnsPolicy="X"), "t3": _template()}),
    *_specs("StatefulSet", {"serviceName": "s"}, {"t4": _template(_BAD), "t5": _template()}),
    *_specs("DaemonSet", {}, {"t6": _template(_BAD), "t7": _template({"livenessProbe": {}})}),
    *_specs("ReplicaSet", {}, {"t8": _template({"volumeMounts": [{"name": "n", "mountPath": "/x"}]})}),
    *_specs("Job", {}, {"t9": _job(_BAD), "t10": _job(hostname="A_")}),
    *_specs("CronJob", {"schedule": "* * * * *"}, {"t11": {"jobTemplate": {"spec": _job(_BAD)}}}),
]


# --- the rest -------------------------------------------------------------------------------------


def _resource(**target: Any) -> Object:
    return {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}


def _scale_up(**rules: Any) -> Object:
    return {"behavior": {"scaleUp": rules}}


_AUTOSCALERS: dict[str, Object] = {
    "h1": {"maxReplicas": 0},
    "h2": {"minReplicas": 0},
    "h3": {"minReplicas": 5},
    "h4": {"metrics": [{"type": "Resource"}]},
    "h5": {"metrics": [{"type": "Nope"}]},
    "h6": {"scaleTargetRef": {"kind": "", "name": ""}},
    "h7": _resource(type="Utilization"),
    "h8": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": -1}}},
    "h9": {},
    "h10": _resource(type="Utilization", averageUtilization=0),
    "h11": _scale_up(policies=[{"type": "Pods", "value": 0, "periodSeconds": 60}]),
    "h12": {
        "maxReplicas": -1,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"target": {"type": "X", "averageUtilization": 1, "averageValue": "1"}},
                "pods": {"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}},
            }
        ],
    },
    "h13": _scale_up(
        stabilizationWindowSeconds=4000,
        policies=[
            {"type": "Pods", "value": 1, "periodSeconds": 2000},
            {"type": "Pods", "value": 1, "periodSeconds": 0},
        ],
    ),
    "h14": {
        "metrics": [{"type": ""}],
        "scaleTargetRef": {"kind": "a/b", "name": "x", "apiVersion": "a/b/c"},
    },
}
_BUDGETS: dict[str, Object] = {
    "p1": {"minAvailable": "150%"},
    "p2": {"minAvailable": -1},
    "p3": {"maxUnavailable": "nope"},
    "p4": {"minAvailable": 1, "maxUnavailable": 1},
    "p5": {"unhealthyPodEvictionPolicy": "Nope"},
    "p6": {"minAvailable": "50"},
    "p7": {"maxUnavailable": "101%"},
}
_MAPS: dict[str, Object] = {
    "c1": {"data": {"a b": "x"}},
    "c2": {"data": {"..": "x"}},
    "c3": {"data": {"a": "x"}, "binaryData": {"a": "eA=="}},
    "c4": {"data": {"..a": "x"}},
    "c5": {"data": {_LONG: "x"}},
    "c6": {"data": {"": "x"}},
    "c7": {"data": {"a": "x" * 1_100_000}},
    "c8": {"data": {"x y" * 100: "x"}},
}


def _secret(kind: str, **data: str) -> Object:
    return {"type": f"kubernetes.io/{kind}", "data": data}


_SECRETS: dict[str, Object] = {
    "s1": {"data": {"a/b": "eA=="}},
    "s2": _secret("tls", **{"tls.crt": "eA=="}),
    "s3": _secret("dockerconfigjson"),
    "s4": _secret("basic-auth"),
    "s5": {"data": {"a": "!!"}},
    "s6": _secret("dockerconfigjson", **{".dockerconfigjson": "eA=="}),
    "s7": {"type": "kubernetes.io/ssh-auth"},
    "s8": {"type": "kubernetes.io/service-account-token"},
    "s9": {"stringData": {"a": "x" * 1_060_000}},
    "s10": _secret("dockercfg", **{".dockercfg": ""}),
    "s11": _secret("dockercfg", **{".dockercfg": "eyJhIg=="}),
    "s12": _secret("dockercfg", **{".dockercfg": "e30="}),
    "s13": _secret("dockerconfigjson", **{".dockerconfigjson": "W10="}),
    "s14": {"immutable": True, "data": {}},
}


def _ingress(peer: Object) -> Object:
    return {"ingress": [{"from": [peer]}]}


def _let_in(**port: Any) -> Object:
    return {"ingress": [{"ports": [port]}]}


_POLICIES: dict[str, Object] = {
    "n1": {},
    "n2": {"egress": [{}]},
    "n3": {"policyTypes": ["Nope"]},
    "n4": _ingress({"ipBlock": {"cidr": "nope"}}),
    "n5": _ingress({}),
    "n6": _let_in(port=0),
    "n7": _let_in(protocol="X"),
    "n8": _ingress({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}),
    "n9": _let_in(port=80, endPort=70),
    "n10": {"ingress": [{"from": [{"ipBlock": {}}], "ports": [{"port": 80}]}], "egress": []},
}
_ADDRESS = {"ip": "10.0.0.1"}
_ENDPOINTS: dict[str, Object] = {
    "ep1": {"subsets": []},
    "ep2": {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 80}]}]},
    "ep3": {"subsets": [{"ports": [{"port": 80}]}]},
    "ep4": {"subsets": [{"addresses": [_ADDRESS], "ports": [{"port": 0, "protocol": "X"}]}]},
    "ep5": {"subsets": [{"addresses": [_ADDRESS], "ports": [{"port": 80}, {"port": 81}]}]},
    "ep6": {"subsets": [{"addresses": [_ADDRESS], "ports": [{"port": 80}]}]},
    "ep7": {"subsets": [{"addresses": [{"ip": "127.0.0.1", "hostname": "A_"}], "ports": [{"port": 80}]}]},
}


def _port(**port: Any) -> Object:
    return {"ports": [{"port": 80, **port}]}


_SERVICES: dict[str, Object] = {
    "s1": {},
    "s2": _port(port=0),
    "s3": {"ports": [{"port": 80}, {"port": 81}]},
    "s4": {"type": "Nope", **_port()},
    "s5": {"type": "ExternalName"},
    "s6": {"clusterIP": "nope", **_port()},
    "s7": _port(targetPort="A_"),
    "s8": {"sessionAffinity": "X", **_port()},
    "S9": _port(),
    "s10": {"type": "NodePort", **_port(nodePort=80)},
    "s11": _port(protocol="X"),
    "s12": {"type": "ExternalName", "externalName": "a_b"},
    "s13": _port(targetPort=0),
    "s14": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]},
    "s15": {"externalIPs": ["x", "127.0.0.1"], **_port()},
    "s16": {"clusterIP": "None", **_port()},
    "s17": {"clusterIP": "192.0.2.1", **_port()},
    "s18": {"externalTrafficPolicy": "Local", **_port()},
    "s19": _port(nodePort=30080),
    "s20": {"sessionAffinity": "ClientIP", **_port()},
    "s21": {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}},
        **_port(),
    },
    "s22": {"type": "ExternalName", "externalName": "a.example.com", **_port()},
    "s23": _port(appProtocol="a b"),
    "s24": _port(name="A_"),
    "s25": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"], **_port()},
    "s26": {"internalTrafficPolicy": "X", **_port()},
    "s27": {"type": "ExternalName", "externalName": "a.example.com", "clusterIP": "10.0.0.9"},
    "s28": {"clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.9"], **_port()},
    "s29": {"type": "LoadBalancer", **_port()},
    "s30": {"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]},
    "1a": _port(),
    "a.b": _port(),
    "s31": {"selector": {"a b": "c"}, **_port()},
    "s32": {"ipFamilies": ["X"], **_port()},
    "s33": {"ipFamilyPolicy": "X", **_port()},
    "s34": {"type": "NodePort", "externalTrafficPolicy": "X", **_port()},
}


def _path(**path: Any) -> Object:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    return {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend, **path}]}}]}


def _service(**service: Any) -> Object:
    return {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}, **service}}}


_INGRESSES: dict[str, Object] = {
    "i1": {},
    "i2": {"rules": [{"host": "A_"}]},
    "i3": {
        "rules": [
            {
                "http": {
                    "paths": [{"path": "x", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]
                }
            }
        ]
    },
    "i4": {"defaultBackend": {}},
    "i5": {"rules": [{"http": {"paths": []}}]},
    "i6": _path(backend={"service": {"name": "s", "port": {}}}),
    "i7": {**_service(), "tls": [{"hosts": ["*"]}]},
    "i8": _path(path="/a//b", pathType="Exact"),
    "i9": _path(pathType="X"),
    "i10": _path(path="x"),
    "i11": _path(path="x", pathType="ImplementationSpecific"),
    "i12": {"rules": [{"host": "1.2.3.4"}, {"host": "*.example.com"}, {"host": "*."}]},
    "i13": {"defaultBackend": {**_service()["defaultBackend"], "resource": {"kind": "K", "name": "n"}}},
    "i14": _service(port={"number": 80, "name": "http"}),
    "i15": _service(port={"number": 70000}),
    "i16": _service(port={"name": "A_"}),
    "i17": _service(name="A_"),
    "i18": {**_service(), "ingressClassName": "A_"},
    "i19": _path(path="/a/../b%2f/"),
    "i20": {"defaultBackend": {"resource": {"apiGroup": "g", "kind": "", "name": ""}}},
    "i21": _path(path=""),
    "i22": _path(),
    "i23": _service(name=""),
    "i24": _service(port={"number": -1}),
}
_SLICE = {"addressType": "IPv4", "endpoints": []}
_SLICES: dict[str, Object] = {
    "l1": {**_SLICE, "addressType": "X"},
    "l2": {**_SLICE, "endpoints": [{"addresses": ["x"]}]},
    "l3": {**_SLICE, "endpoints": [{"addresses": []}]},
    "l4": {**_SLICE, "ports": [{"name": "a", "port": 80}, {"name": "a", "port": 80}]},
    "l5": {**_SLICE, "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
}

REQUESTS: list[Object] = [
    *_specs(
        "HorizontalPodAutoscaler",
        {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "maxReplicas": 3},
        _AUTOSCALERS,
    ),
    *_specs("PodDisruptionBudget", {"selector": {"matchLabels": {"a": "b"}}}, _BUDGETS),
    *_named("ConfigMap", _MAPS),
    *_named("Secret", _SECRETS),
    *_named("Pod", PODS),
    *_specs("NetworkPolicy", {"podSelector": {}}, _POLICIES),
    *_named("Endpoints", _ENDPOINTS),
    *_named("EndpointSlice", _SLICES),
    *_specs("Service", {}, _SERVICES),
    *_specs("Ingress", {}, _INGRESSES),
    *_WORKLOADS,
]
