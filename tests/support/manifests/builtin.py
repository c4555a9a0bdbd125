"""What the embedded API server serves without any definition, in the order of discovery."""

from __future__ import annotations

from berth.kube.versions import NEWEST
from berth.server.registry.kinds import strategies_of

BUILTIN = tuple(strategy.resource for strategy in strategies_of(NEWEST))
