"""The four kinds of patches, as functions from one object to the next, and who manages which field."""

from berth.server.patch.apply import STATUS_METADATA, apply, reset_fields, track_update
from berth.server.patch.managers import creator_entry
from berth.server.patch.patches import json_patch, merge_patch, strategic_merge_patch

__all__ = [
    "STATUS_METADATA",
    "apply",
    "creator_entry",
    "json_patch",
    "merge_patch",
    "reset_fields",
    "strategic_merge_patch",
    "track_update",
]
