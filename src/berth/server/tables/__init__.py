"""Tables for ``kubectl get``, with Kubernetes' own columns."""

from berth.server.tables.rendering import partial_metadata, render_table

__all__ = ["partial_metadata", "render_table"]
