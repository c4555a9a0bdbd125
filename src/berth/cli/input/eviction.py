"""The flags for evicting pods and keeping groups spread, the same in `berth controllers` and `berth up`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from berth.cli.input.components import DURATION, RATE
from berth.cli.input.options import LABEL_KEY, bool_option, in_this_order, option
from berth.engine.execution.eviction_ceiling import HaltPolicy
from berth.engine.execution.rebalancing import Rebalance, RebalancePolicy
from berth.engine.state.options import Options
from berth.eviction import EvictionRate, EvictionSettings
from berth.kube.gates import FeatureGates
from berth.spreading import SpreadingSettings

_DEFAULT = EvictionSettings()

# Options for grace periods, rates, halts and paces.
eviction_options = in_this_order(
    option(
        "--affinity-violation-grace",
        "How long pod affinity may be broken before a pod goes for it.",
        type=DURATION,
        default="30s",
    ),
    option("--eviction-qps", "Evictions a second.", type=RATE, default=1.0),
    option("--eviction-burst", "Evictions at once.", type=click.IntRange(1), default=10),
    option("--domain-eviction-qps", "Evictions a second in one topology domain.", type=RATE, default=0.5),
    option("--domain-eviction-burst", "Evictions at once in one domain.", type=click.IntRange(1), default=5),
    option(
        "--eviction-domain",
        "The node label that says which domain a node is in.",
        type=LABEL_KEY,
        default=_DEFAULT.domain_key,
        metavar="LABEL",
    ),
    option(
        "--max-evicted-share",
        "Halt a domain while more than this share of its pods would go.",
        type=float,
        default=_DEFAULT.max_share,
    ),
    option(
        "--halt-above",
        "So few pods are never too many, whatever their share.",
        type=click.IntRange(0),
        default=_DEFAULT.halt_above,
        metavar="PODS",
    ),
    option(
        "--halt-policy",
        "Who goes from a halted domain: those with a place, one by one, or nobody.",
        type=click.Choice([policy.value for policy in HaltPolicy]),
        default=_DEFAULT.policy.value,
    ),
    bool_option(
        "--pace-by-owner",
        default=True,
        help="Wait until a replacement is Ready before the next pod of its owner goes.",
    ),
    option(
        "--pace-timeout",
        "How long to wait for one that gets no node; 0 for ever.",
        type=DURATION,
        default="10m",
    ),
)


def eviction_of(flags: Mapping[str, Any], options: Options, *, dry_run: bool = False) -> EvictionSettings:
    """What the flags say; a ValueError says what cannot be."""
    return EvictionSettings(
        options=options,
        grace=flags["affinity_violation_grace"],
        rate=EvictionRate(qps=flags["eviction_qps"], burst=flags["eviction_burst"]),
        domain_rate=EvictionRate(qps=flags["domain_eviction_qps"], burst=flags["domain_eviction_burst"]),
        domain_key=flags["eviction_domain"],
        max_share=flags["max_evicted_share"],
        halt_above=flags["halt_above"],
        policy=HaltPolicy(flags["halt_policy"]),
        pace_by_owner=flags["pace_by_owner"],
        pace_timeout=flags["pace_timeout"],
        dry_run=dry_run,
    )


# --- keeping groups spread ------------------------------------------------------------------------

# Options that say which pods may be moved so that groups are even again.
spreading_options = in_this_order(
    option(
        "--rebalance",
        "Move pods of uneven workloads, for hard constraints or also for soft ones; "
        "a workload's annotation berth.dev/rebalance comes first.",
        type=click.Choice([policy.value for policy in RebalancePolicy]),
        default=RebalancePolicy.OFF.value,
    ),
    option(
        "--rebalance-margin",
        "A move must make it more even by so much: pods that are too many in their domains.",
        type=click.FloatRange(0, min_open=True),
        default=1.0,
        metavar="PODS",
    ),
    option(
        "--rebalance-waits-for-nodes",
        "For a hard constraint also move a pod whose replacement has to wait for a new node.",
        is_flag=True,
    ),
    option(
        "--rebalance-delay",
        "How long a node that came or changed is not trusted with replacements.",
        type=DURATION,
        default="30s",
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
            policy=policy, margin=flags["rebalance_margin"], waits=flags["rebalance_waits_for_nodes"]
        ),
        rebalance_delay=flags["rebalance_delay"],
        dry_run=dry_run,
    )
