"""Strings that Kubernetes gives a meaning to and more than one module needs, each written once.

Those of the object a module is about (a rule's plugin, a resource's name, Karmada) are with that module.
"""

from __future__ import annotations

# --- pods ---------------------------------------------------------------------------------------

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
READY, POD_SCHEDULED, DISRUPTION_TARGET = "Ready", "PodScheduled", "DisruptionTarget"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

MIRROR_POD = "kubernetes.io/config.mirror"
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

# Labels and annotations of the pods of workloads.
TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
JOB_NAME = "batch.kubernetes.io/job-name"
JOB_UID = "batch.kubernetes.io/controller-uid"
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
JSON, YAML = "application/json", "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
# What `kubectl apply` writes down of what it applied.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The ConfigMap in every namespace that tells pods by whom to know the API server.
ROOT_CA = "kube-root-ca.crt"

# --- Berth's own --------------------------------------------------------------------------------

BERTH_API_VERSION = "berth.dev/v1alpha1"

# Annotations of pods: what hollow nodes make of them.
RUN_FOR, EXIT_CODE = "berth.dev/run-for", "berth.dev/exit-code"
START_AFTER, STOP_AFTER = "berth.dev/start-after", "berth.dev/stop-after"
# Beside a deletion cost that Berth gave a pod, to tell it from one that others gave.
OWN_DELETION_COST = "berth.dev/deletion-cost"
# What a workload says of itself.
REBALANCE, WAITS_FOR_NODES = "berth.dev/rebalance", "berth.dev/rebalance-waits-for-nodes"
KEEP_SPREAD = "berth.dev/keep-spread"
# Where a person says that evictions may go on, and how.
RELEASE_ANNOTATION = "berth.dev/release-evictions"
# "off" makes a hollow node fall silent.
HOLLOW_POWER = "berth.dev/power"
# A definition is brought up to date at the next start as long as it says so itself.
AUTOUPDATE = "berth.dev/autoupdate"
# The charges of a quota for pods that are not seen yet.
EXCLUSIVE_PENDING = "berth.dev/exclusive-pending"
# Which labels of a binding are its resource's: they go when the resource loses them.
COPIED_LABELS = "berth.dev/copied-labels"
# Of the Lease by which one scheduler founds a group of workloads.
WORKLOAD_GROUP, CLAIMED_VERSION = "berth.dev/workload-group", "berth.dev/claimed-version"
CLAIM_TAKEN_OVER = "berth.dev/claim-taken-over"
