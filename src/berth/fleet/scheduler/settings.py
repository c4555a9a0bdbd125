"""What can be set about `berth fleet`."""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.fleet.state.options import COMPATIBLE, FleetOptions
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME

SCHEDULER_NAME = "berth"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """How bindings are scheduled; `compatible` gives Karmada's ways.

    Attributes:
        scheduler_names: Whose bindings are scheduled. One without a name belongs to ``default-scheduler``.
        retry_blocked: A binding that fits nowhere is tried again when a peer leaves or moves.
        claim_groups: The first member of a group claims it with a Lease: two schedulers cannot split it.
        claimed_only: Leave bindings alone that no policy made.
    """

    options: FleetOptions = field(default_factory=FleetOptions)
    scheduler_names: frozenset[str] = frozenset((SCHEDULER_NAME,))
    retry_blocked: bool = True
    claim_groups: bool = True
    claimed_only: bool = False

    @classmethod
    def compatible(
        cls, scheduler_names: frozenset[str] = frozenset((DEFAULT_SCHEDULER_NAME,))
    ) -> FleetSettings:
        return cls(
            options=COMPATIBLE,
            scheduler_names=scheduler_names,
            retry_blocked=False,
            claim_groups=False,
            claimed_only=True,
        )
