"""The Kubernetes objects Berth reads, as typed views over the wire format; names are exported from here.

A view holds only the fields something decides by; everything else in an object
is skipped on decoding.  Code that passes an object on (rather than judging it)
keeps the original beside the view: see :mod:`berth.kube.manifests.manifest`.

Absent and null mean the same thing in every object, so every field of a view may
be ``None``; an *empty* object or list is kept apart from a missing one, because
Kubernetes gives the two different meanings (``labelSelector: {}`` selects every
pod, a missing one selects none).
"""

from __future__ import annotations

from berth.kube.objects.affinity import *
from berth.kube.objects.base import *
from berth.kube.objects.metadata import *
from berth.kube.objects.nodes import *
from berth.kube.objects.nodes import Namespace, Node
from berth.kube.objects.pods import *
from berth.kube.objects.pods import Pod
from berth.kube.objects.policy import *
from berth.kube.objects.policy import PodDisruptionBudget, PodGroup, PriorityClass, Service
from berth.kube.objects.storage import *
from berth.kube.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.kube.objects.workloads import *
from berth.kube.objects.workloads import CronJob, Job, ReplicationController, Workload

KubeObject = (
    Pod
    | Node
    | Namespace
    | Workload
    | ReplicationController
    | Job
    | CronJob
    | PriorityClass
    | PodDisruptionBudget
    | PodGroup
    | Service
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSIDriver
    | CSINode
    | CSIStorageCapacity
    | VolumeAttachment
    | ResourceClaim
)
