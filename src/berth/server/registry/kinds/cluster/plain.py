"""Kinds without rules of their own, which are stored as they come."""

from __future__ import annotations

from berth.server.registry.strategy import Strategy, served
from berth.server.tables import cluster as tables

_ADMISSION = "admissionregistration.k8s.io/v1"

STRATEGIES = (
    Strategy(
        served("coordination.k8s.io/v1", "Lease"),
        columns=tables.LEASE,
        generation=False,
        needs_version=True,
        create_on_update=True,
    ),
    # Configurations of webhooks are stored but nobody is called.
    *(
        Strategy(
            served(_ADMISSION, kind, namespaced=False, categories="api-extensions"),
            columns=tables.WEBHOOKS,
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
)
