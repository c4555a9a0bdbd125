"""Strings that Kubernetes gives a meaning to, each written once.

Labels, annotations, taint keys, phases, condition types and field names. What only one module reads may
stay there; what a second one needs moves here.
"""

from __future__ import annotations

# Phases of a pod, and what conditions say.
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
READY = "Ready"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

# Labels of the pods of workloads.
TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
