"""How pods are evicted, as flags: the same for `berth controllers` and `berth up`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from berth.cli.input.components import DURATION, RATE
from berth.cli.input.options import LABEL_KEY, bool_option, in_this_order
from berth.engine.execution.eviction_ceiling import HaltPolicy
from berth.engine.state.options import Options
from berth.eviction import EvictionRate, EvictionSettings

_DEFAULT = EvictionSettings()

# Grace, rates, halts and paces.
eviction_options = in_this_order(
    click.option(
        "--affinity-violation-grace",
        type=DURATION,
        default="30s",
        show_default=True,
        help="How long pod affinity may be broken before a pod goes for it.",
    ),
    click.option("--eviction-qps", type=RATE, default=1.0, show_default=True, help="Evictions a second."),
    click.option(
        "--eviction-burst",
        type=click.IntRange(1),
        default=10,
        show_default=True,
        help="Evictions at once.",
    ),
    click.option(
        "--domain-eviction-qps",
        type=RATE,
        default=0.5,
        show_default=True,
        help="Evictions a second in one topology domain.",
    ),
    click.option(
        "--domain-eviction-burst",
        type=click.IntRange(1),
        default=5,
        show_default=True,
        help="Evictions at once in one domain.",
    ),
    click.option(
        "--eviction-domain",
        type=LABEL_KEY,
        default=_DEFAULT.domain_key,
        show_default=True,
        metavar="LABEL",
        help="The node label that says which domain a node is in.",
    ),
    click.option(
        "--max-evicted-share",
        type=float,
        default=_DEFAULT.max_share,
        show_default=True,
        help="Halt a domain while more than this share of its pods would go.",
    ),
    click.option(
        "--halt-above",
        type=click.IntRange(0),
        default=_DEFAULT.halt_above,
        show_default=True,
        metavar="PODS",
        help="So few pods are never too many, whatever their share.",
    ),
    click.option(
        "--halt-policy",
        type=click.Choice([policy.value for policy in HaltPolicy]),
        default=_DEFAULT.policy.value,
        show_default=True,
        help="Who goes from a halted domain: those with a place, one by one, or nobody.",
    ),
    bool_option(
        "--pace-by-owner",
        default=True,
        help="Wait until a replacement is Ready before the next pod of its owner goes.",
    ),
    click.option(
        "--pace-timeout",
        type=DURATION,
        default="10m",
        show_default=True,
        help="How long to wait for one that gets no node; 0 for ever.",
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
