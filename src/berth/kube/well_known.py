"""Strings that Kubernetes gives a meaning to and more than one module needs, each written once.

Those of the object a module is about (a rule's plugin, a resource's name, Karmada) are with that module.
"""

from __future__ import annotations

# --- pods ---------------------------------------------------------------------------------------

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
READY = "Ready"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

MIRROR_POD = "kubernetes.io/config.mirror"
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

# Labels and annotations of the pods of workloads.
TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

# --- scheduling ---------------------------------------------------------------------------------

DEFAULT_SCHEDULER_NAME = "default-scheduler"

# Why the condition PodScheduled is false.
UNSCHEDULABLE, SCHEDULER_ERROR, SCHEDULING_GATED = "Unschedulable", "SchedulerError", "SchedulingGated"
SCHEDULING_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"

REQUIRED_DURING_SCHEDULING = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRED_DURING_EXECUTION = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED_DURING_SCHEDULING = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME_FIELD = "metadata.name"
DO_NOT_SCHEDULE, SCHEDULE_ANYWAY = "DoNotSchedule", "ScheduleAnyway"

# --- nodes and volumes --------------------------------------------------------------------------

HOSTNAME = "kubernetes.io/hostname"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

# --- namespaces and finalizers ------------------------------------------------------------------

SYSTEM_NAMESPACE, NODE_LEASE_NAMESPACE = "kube-system", "kube-node-lease"
FOREGROUND_DELETION, ORPHAN_DEPENDENTS = "foregroundDeletion", "orphan"

# --- the API ------------------------------------------------------------------------------------

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# What `kubectl apply` writes down of what it applied.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The ConfigMap in every namespace that tells pods by whom to know the API server.
ROOT_CA = "kube-root-ca.crt"

# Of Berth's own documents.
BERTH_API_VERSION = "berth.dev/v1alpha1"
# Beside a deletion cost that Berth gave a pod, to tell it from one that somebody else did.
OWN_DELETION_COST = "berth.dev/deletion-cost"
