"""How workloads are placed over clusters, on the command line of every `berth fleet` command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from berth.cli.input.components import given
from berth.cli.input.options import Decorator, ParsedParam, bool_option, in_this_order, label_key, option
from berth.fleet.state.options import COMPATIBLE, FleetOptions

# Improvements over Karmada's scheduler, each with a flag of its own.
IMPROVEMENTS = {
    "count_evicting": "A workload still being evicted from a cluster counts as there.",
    "group_failover": "When the clusters of an affinity group fail, the group moves together.",
    "keep_when_unfit": "A binding that other workloads keep off everywhere keeps its clusters.",
    "name_peers": "Reasons name the workload that is in the way.",
}
LIVE_IMPROVEMENTS = {
    "retry_blocked": "Try a blocked binding again when a peer leaves or moves.",
    "claim_groups": "The first of a group claims it with a Lease, so that two schedulers cannot split it.",
}


def _label_keys(text: str) -> tuple[str, ...]:
    # In a container's args there is no shell: the quotes of --keys="a,b" arrive here.
    written = (key.strip(" \t\"'") for key in text.split(","))
    return tuple(map(label_key, dict.fromkeys(filter(None, written))))


LABEL_KEYS = ParsedParam("keys", _label_keys)


def switch(name: str, words: str) -> Decorator:
    """A flag whose default depends on `--karmada-compat`."""
    return bool_option(f"--{name.replace('_', '-')}", name, help=f"{words}  [true, unless --karmada-compat]")


def placing_options(*, compat: bool = False) -> Decorator:
    """Options of every command that decides; `compat` is whether Karmada's ways are the default."""
    return in_this_order(
        option(
            "--karmada-compat/--no-karmada-compat",
            "Decide as Karmada's scheduler does, shortcomings included.",
            default=compat,
        ),
        _keys_option("affinity"),
        _keys_option("anti-affinity"),
        option(
            "--enable-empty-workload-propagation",
            "Clusters that are selected but get no replicas are targets, too.",
            is_flag=True,
        ),
        *(switch(name, words) for name, words in IMPROVEMENTS.items()),
    )


def _keys_option(kind: str) -> Decorator:
    return click.option(
        f"--{kind}-label-keys",
        type=LABEL_KEYS,
        default=(),
        metavar="KEY,KEY",
        help=f"The labels to index for {kind}, and what affinityEnabled compares.  [all, none]",
    )


def options_of(flags: Mapping[str, Any]) -> FleetOptions:
    base = COMPATIBLE if flags["karmada_compat"] else FleetOptions()
    return replace(
        base,
        empty_workload_propagation=flags["enable_empty_workload_propagation"],
        affinity_label_keys=flags["affinity_label_keys"],
        anti_affinity_label_keys=flags["anti_affinity_label_keys"],
        **{name: given(flags[name], getattr(base, name)) for name in IMPROVEMENTS},
    )
