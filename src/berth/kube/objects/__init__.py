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
from berth.kube.objects.cluster import *
from berth.kube.objects.cluster import ClusterObject
from berth.kube.objects.metadata import *
from berth.kube.objects.pods import *
from berth.kube.objects.pods import Pod
from berth.kube.objects.storage import *
from berth.kube.objects.storage import StorageObject
from berth.kube.objects.workloads import *
from berth.kube.objects.workloads import PodMaker

KubeObject = Pod | ClusterObject | PodMaker | StorageObject  # that people have in files
