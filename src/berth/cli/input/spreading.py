"""How groups are kept spread, as flags: the same for `berth controllers` and `berth up`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from berth.cli.input.components import DURATION
from berth.cli.input.options import in_this_order
from berth.engine.execution.rebalancing import Rebalance, RebalancePolicy
from berth.kube.gates import FeatureGates
from berth.spreading import SpreadingSettings

# Who may be moved so that groups are even again, and for what.
spreading_options = in_this_order(
    click.option(
        "--rebalance",
        type=click.Choice([policy.value for policy in RebalancePolicy]),
        default=RebalancePolicy.OFF.value,
        show_default=True,
        help="Move pods of uneven workloads, for hard constraints or also for soft ones; "
        "a workload's annotation berth.dev/rebalance comes first.",
    ),
    click.option(
        "--rebalance-margin",
        type=click.FloatRange(0, min_open=True),
        default=1.0,
        show_default=True,
        metavar="PODS",
        help="A move must make it more even by so much: pods that are too many in their domains.",
    ),
    click.option(
        "--rebalance-waits-for-nodes",
        is_flag=True,
        help="For a hard constraint also move a pod whose replacement has to wait for a new node.",
    ),
    click.option(
        "--rebalance-delay",
        type=DURATION,
        default="30s",
        show_default=True,
        help="How long a node that came or changed is not trusted with replacements.",
    ),
)


def spreading_of(
    flags: Mapping[str, Any], gates: FeatureGates, *, dry_run: bool = False
) -> SpreadingSettings:
    """What the flags say; a ValueError says what cannot be."""
    policy = RebalancePolicy(flags["rebalance"])
    if policy is not RebalancePolicy.OFF and not gates.keep_spread:
        raise ValueError(f"--rebalance {policy.value} takes the feature gate KeepSpread, which is off")
    return SpreadingSettings(
        rebalance=Rebalance(
            policy=policy,
            margin=flags["rebalance_margin"],
            waits=flags["rebalance_waits_for_nodes"],
        ),
        rebalance_delay=flags["rebalance_delay"],
        dry_run=dry_run,
    )
