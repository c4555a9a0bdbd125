"""Pods that are sent to an API server to see what it says."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def pod(container: Object | None = None, **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec}}


def _env(**variable: Any) -> Object:
    return pod({"env": [{"name": "A", **variable}]})


def _field(path: str, **more: str) -> Object:
    return _env(valueFrom={"fieldRef": {"fieldPath": path, **more}})


def _mount(*mounts: Object, **container: Any) -> Object:
    listed = [{"name": "v", "mountPath": "/a", **mount} for mount in mounts]
    return pod({"volumeMounts": listed, **container}, volumes=[{"name": "v", "emptyDir": {}}])


def _volume(**source: Any) -> Object:
    return pod(volumes=[{"name": "v", **source}])


def _probe(probe: Object, name: str = "livenessProbe") -> Object:
    return pod({name: probe})


def _context(**context: Any) -> Object:
    return pod({"securityContext": context})


PODS = {
    "e1": _env(name="a=b", value="x"),
    "e2": _env(name="", value="x"),
    "e3": _env(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
    "e4": _field("spec.nope"),
    "e5": _env(valueFrom={}),
    "e6": pod({"envFrom": [{"prefix": "a=", "configMapRef": {"name": ""}}]}),
    "e7": _env(valueFrom={"configMapKeyRef": {"name": "m", "key": ""}}),
    "e8": _env(valueFrom={"secretKeyRef": {"name": "S_", "key": "a b"}}),
    "e9": _env(valueFrom={"resourceFieldRef": {"resource": "nope"}}),
    "e10": _env(
        valueFrom={"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}
    ),
    "e11": _field("metadata.labels['a b']"),
    "e12": _field("metadata.name", apiVersion="v2"),
    "e13": pod({"envFrom": [{}]}),
    "e14": pod({"envFrom": [{"configMapRef": {"name": "m"}, "secretRef": {"name": "S_"}}]}),
    "e15": _field(""),
    "e16": _field("spec.nodeName['x']"),
    "e17": _field("metadata.annotations['Some/Key']"),
    "e18": _env(name="ä", value="x"),
    "e19": _env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3m"}}),
    "e20": _field("metadata.labels"),
    "e21": _env(valueFrom={"configMapKeyRef": {"key": "k"}}),
    "e22": _env(valueFrom={"fileKeyRef": {"key": "k", "volumeName": "v", "path": "../p"}}),
    "e23": _env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}),
    "v1": pod({"volumeMounts": [{"name": "nope", "mountPath": "/x"}]}),
    "v2": _mount({"mountPath": ""}),
    "v3": _mount({}, {}),
    "v4": pod(volumes=[{"name": "v"}, {"name": "v"}]),
    "v5": _volume(emptyDir={}, hostPath={"path": "/"}),
    "v6": _mount({"subPath": "../x"}),
    "v7": pod(volumes=[{"name": "V_", "emptyDir": {}}]),
    "v8": _mount({"subPath": "/x", "subPathExpr": "/y"}),
    "v9": _mount({"mountPropagation": "X"}),
    "v10": _mount({"mountPropagation": "Bidirectional"}),
    "v11": _mount({"recursiveReadOnly": "X"}),
    "v12": _mount({"recursiveReadOnly": "Enabled"}),
    "v13": _mount({}, volumeDevices=[{"name": "v", "devicePath": "/a"}]),
    "v14": pod({"volumeDevices": [{"name": "", "devicePath": ""}, {"name": "x", "devicePath": "../d"}]}),
    "v15": pod(
        volumes=[{"name": "v", "emptyDir": {}}],
        initContainers=[{"name": "i", "image": "i", "volumeMounts": [{"name": "w", "mountPath": "/a:b"}]}],
    ),
    "v16": _mount({"name": "", "mountPath": "/b"}),
    "v17": pod(volumes=[{"name": "", "emptyDir": {}}]),
    "w1": _volume(hostPath={"path": ""}),
    "w2": _volume(hostPath={"path": "/a/../b", "type": "X"}),
    "w3": _volume(secret={}),
    "w4": _volume(secret={"secretName": "s", "items": [{"key": "", "path": "../x"}]}),
    "w5": _volume(configMap={"name": ""}),
    "w6": _volume(configMap={"name": "m", "defaultMode": 1000, "items": [{"key": "k", "path": "/a"}]}),
    "w7": _volume(projected={}),
    "w8": _volume(projected={"sources": [{"secret": {"name": "s"}, "configMap": {"name": "m"}}]}),
    "w9": _volume(downwardAPI={"items": [{"path": "a"}]}),
    "w10": _volume(persistentVolumeClaim={"claimName": ""}),
    "w11": _volume(emptyDir={"sizeLimit": "-1"}),
    "w12": _volume(nfs={"server": "", "path": "a"}),
    "w13": _volume(csi={"driver": ""}),
    "w14": _volume(ephemeral={}),
    "w15": _volume(secret={"secretName": "s", "defaultMode": -1}),
    "w16": _volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}),
    "w17": _volume(projected={"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 1}}]}),
    "w18": _volume(
        downwardAPI={
            "items": [{"path": "..a", "resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}}]
        }
    ),
    "w19": _volume(
        projected={"sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}}] * 2}
    ),
    "w20": _volume(image={}),
    "w21": _volume(configMap={"name": "m", "items": [{"key": "k", "path": "a", "mode": 9999}]}),
    "w22": _volume(
        projected={
            "sources": [
                {"serviceAccountToken": {"path": "t"}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]
        },
    ),
    "w23": pod(
        volumes=[
            {"name": "a", "secret": {"secretName": "s"}},
            {"name": "b", "configMap": {"name": "m"}},
            {"name": "c", "hostPath": {"path": "/x"}},
            {"name": "d", "nfs": {"server": "s", "path": "/p"}},
            {"name": "e", "csi": {"driver": "d.example.com"}},
            {"name": "f", "image": {"reference": "r"}},
            {"name": "g", "persistentVolumeClaim": {"claimName": "claim"}},
        ]
    ),
    "w24": _volume(iscsi={"targetPortal": "1.2.3.4", "iqn": "iqn.2015-02.example.com:test", "lun": 0}),
    "w25": _volume(
        ephemeral={
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        }
    ),
    "q1": _probe({}),
    "q2": _probe({"httpGet": {"port": 0}}, "readinessProbe"),
    "q3": _probe({"exec": {"command": ["x"]}, "successThreshold": 2}),
    "q4": _probe({"exec": {"command": []}}),
    "q5": _probe({"tcpSocket": {"port": 1}, "exec": {"command": ["x"]}}),
    "q6": _probe({"tcpSocket": {"port": 1}, "periodSeconds": -1}),
    "q7": pod({"lifecycle": {"postStart": {}}}),
    "q8": _probe({"httpGet": {"port": "A_", "scheme": "X", "httpHeaders": [{"name": "a b", "value": ""}]}}),
    "q9": _probe({"grpc": {"port": 0}}),
    "q10": _probe({"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}, "readinessProbe"),
    "q11": _probe({"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 0}),
    "q12": pod(
        initContainers=[{"name": "i", "image": "i", "livenessProbe": {"tcpSocket": {"port": 1}}}],
    ),
    "q13": pod({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
    "q14": pod({"lifecycle": {"preStop": {"httpGet": {"port": 80}}}}),
    "q15": _probe({"grpc": {"port": 80}, "initialDelaySeconds": -1, "failureThreshold": -1}),
    "q16": _probe({"tcpSocket": {"port": 1}, "successThreshold": 2}, "startupProbe"),
    "q17": pod({"lifecycle": {"stopSignal": "X"}}),
    "q18": pod({"lifecycle": {"stopSignal": "SIGTERM"}}),
    "q19": pod(
        initContainers=[
            {
                "name": "i",
                "image": "i",
                "restartPolicy": "Always",
                "livenessProbe": {"httpGet": {"port": 70000}},
                "lifecycle": {"preStop": {"exec": {}}},
            }
        ],
    ),
    "r1": pod({"ports": [{"containerPort": 0}]}),
    "r2": pod({"ports": [{"containerPort": 80, "protocol": "X"}]}),
    "r3": pod({"ports": [{"containerPort": 80, "name": "A_"}]}),
    "r4": pod({"imagePullPolicy": "X"}),
    "r5": pod(restartPolicy="X"),
    "r6": pod(dnsPolicy="X"),
    "r7": pod({"ports": [{"containerPort": 80, "hostPort": 70000}]}),
    "r8": pod(dnsPolicy="None"),
    "r9": pod(dnsConfig={"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "x"]}),
    "r10": pod(dnsConfig={"searches": ["A_", "a_b.", "."], "options": [{"name": ""}]}),
    "r11": pod(dnsPolicy="None", dnsConfig={"searches": ["a"]}),
    "r12": pod(hostname="A_", subdomain="a.b"),
    "r13": pod(serviceAccountName="A_"),
    "r14": pod(activeDeadlineSeconds=0),
    "r15": pod(terminationGracePeriodSeconds=-1),
    "r16": pod(hostAliases=[{"ip": "x", "hostnames": ["A_"]}]),
    "r17": pod(readinessGates=[{"conditionType": "a b"}]),
    "r18": pod({"terminationMessagePolicy": "X"}),
    "r19": pod(os={"name": "X"}),
    "r20": pod(imagePullSecrets=[{"name": ""}]),
    "r21": pod({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "X"}]}),
    "r22": pod({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}] * 2}),
    "r23": pod(dnsConfig={"nameservers": ["1.1.1.1"], "searches": ["x" * 2049]}),
    "r24": pod({"env": [{"name": ""}], "image": "", "imagePullPolicy": "X"}, dnsPolicy="X", hostname="A_"),
    "r25": pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"),
    "r26": pod(setHostnameAsFQDN=True, hostnameOverride="A_"),
    "r27": pod(shareProcessNamespace=True, hostPID=True),
    "r28": pod(hostUsers=False, hostPID=True, hostIPC=True),
    "x1": _context(runAsUser=-1, runAsGroup=-2),
    "x2": _context(privileged=True, allowPrivilegeEscalation=False),
    "x3": _context(procMount="X"),
    "x4": _context(capabilities={"add": ["SYS_ADMIN"]}, allowPrivilegeEscalation=False),
    "x5": _context(seccompProfile={"type": "X"}),
    "x6": _context(seccompProfile={"type": "Localhost"}),
    "x7": _context(seccompProfile={"type": "RuntimeDefault", "localhostProfile": "p"}),
    "x8": pod(securityContext={"runAsUser": -1, "fsGroup": -1, "supplementalGroups": [-1]}),
    "x9": pod(securityContext={"sysctls": [{"name": "A b", "value": "1"}, {"name": "", "value": ""}]}),
    "x10": pod(securityContext={"fsGroupChangePolicy": "X"}),
    "x11": pod(securityContext={"sysctls": [{"name": "a.b", "value": "1"}] * 2}),
    "x12": _context(appArmorProfile={"type": "Localhost"}),
    "x13": pod(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "../p"}}),
    "x14": pod(securityContext={"supplementalGroupsPolicy": "X"}),
    "d1": pod(
        {
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "livenessProbe": {"httpGet": {"port": 80}},
            "startupProbe": {"grpc": {"port": 80}},
            "lifecycle": {"postStart": {"httpGet": {"port": "http"}}},
            "securityContext": {"procMount": "Default"},
        },
        initContainers=[{"name": "i", "image": "r.example.com:80/i:latest", "ports": [{"containerPort": 1}]}],
    ),
    "d2": pod({"image": "i:v1", "resources": {"limits": {"cpu": "0.5"}}}),
    "d3": pod({"image": "i@sha256:" + "0" * 64, "volumeMounts": []}, volumes=[], tolerations=[]),
}
