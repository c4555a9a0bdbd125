"""What can be said about keeping groups spread."""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.engine.execution.rebalancing import Rebalance
from berth.engine.state.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadingSettings:
    """How groups are kept spread; times in seconds.

    Attributes:
        options: How the rules are read; the gate KeepSpread switches this off: costs are then taken back.
        settle: Changes are gathered for so long before a group is ranked.
        rebalance: What workloads may be moved for that say nothing about it themselves.
        rebalance_delay: A node that came or changed is trusted with replacements after so long.
        dry_run: Only tell what would be done.
    """

    options: Options = field(default_factory=Options)
    settle: float = 0.3
    rebalance: Rebalance = field(default_factory=Rebalance)
    rebalance_delay: float = 30.0
    dry_run: bool = False

    @property
    def enabled(self) -> bool:
        return self.options.gates.keep_spread
