"""Fields of built-in types that Kubernetes has since v1.37; the schemas here are those of v1.36.

The embedded server does not keep them, but files may be from a newer cluster. What is below them is not
known.
"""

from __future__ import annotations

from berth.kube.schema.nodes import SchemaStruct

_USER, _DEFAULT_USER = ("user",), ("defaultUser",)
_CORE = {
    "ClusterTrustBundleProjection": _USER,
    "ConfigMapVolumeSource": _DEFAULT_USER,
    "DownwardAPIVolumeFile": _USER,
    "DownwardAPIVolumeSource": _DEFAULT_USER,
    "EmptyDirVolumeSource": ("mode",),
    "GRPCAction": ("mode",),
    "HTTPGetAction": ("protocol",),
    "KeyToPath": _USER,
    "NodeAllocatableResourceClaimStatus": ("mapping", "overhead"),
    "NodeSpec": ("podPreemptionPolicy",),
    "NodeSystemInfo": ("runningInUserNamespace",),
    "PersistentVolumeClaimStatus": ("healthStatus",),
    "PodCertificateProjection": _USER,
    "PodSpec": ("evictionResponders",),
    "PodStatus": ("volumeHealth",),
    "ProjectedVolumeSource": _DEFAULT_USER,
    "SecretVolumeSource": _DEFAULT_USER,
    "ServiceAccountTokenProjection": _USER,
    "VolumeMount": ("bindMountOptions",),
}
_NEWER = {
    **{f"io.k8s.api.core.v1.{name}": fields for name, fields in _CORE.items()},
    "io.k8s.api.batch.v1.JobSpec": ("scheduling",),
}


def newer_fields(struct: SchemaStruct) -> tuple[str, ...]:
    """The names of fields that a newer Kubernetes adds to a type."""
    return _NEWER.get(struct.name, ())
