"""Options of admission: the anti-affinity limit, and what quotas are charged for exclusive domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from berth.cli.input.options import LABEL_KEY, Decorator, in_this_order, option
from berth.kube.affinity.anti_affinity import AdmissionPolicy, AntiAffinityLimit
from berth.kube.quota.exclusive import AVERAGE, LARGEST
from berth.kube.well_known import HOSTNAME

ALL_NAMESPACES, EVERY_RULE, NONE = "all-namespaces", "every-rule", "none"


def _repeated(name: str, metavar: str, words: str) -> Decorator:
    return click.option(name, multiple=True, metavar=metavar, help=f"{words}; may be repeated.")


# The options that `policy_of` reads.
limit_options = in_this_order(
    option(
        "--anti-affinity-limit",
        "Which required anti-affinity may only have the allowed topology keys.",
        type=click.Choice((ALL_NAMESPACES, EVERY_RULE, NONE)),
        default=ALL_NAMESPACES,
    ),
    option(
        "--allowed-topology-key",
        "A key that is within the limit; may be repeated.",
        "topology_keys",
        type=LABEL_KEY,
        multiple=True,
        default=(HOSTNAME,),
        metavar="KEY",
    ),
    _repeated("--exempt-namespace", "NS", "A namespace without the limit"),
    _repeated("--exempt-user", "USER", "A user who writes without the limit"),
    _repeated("--exempt-group", "GROUP", "A group whose members write without the limit"),
)
exclusive_charge_option = option(
    "--exclusive-charge",
    "For which of the nodes it could get a pod that wants one for itself is charged.",
    type=click.Choice((LARGEST, AVERAGE)),
    default=LARGEST,
)


def policy_of(flags: Mapping[str, Any]) -> AdmissionPolicy:
    which = flags["anti_affinity_limit"]
    limit = AntiAffinityLimit(topology_keys=flags["topology_keys"], every_rule=which == EVERY_RULE)
    return AdmissionPolicy(
        limit=None if which == NONE else limit,
        exempt=frozenset(flags["exempt_namespace"]),
        users=frozenset(flags["exempt_user"]),
        groups=frozenset(flags["exempt_group"]),
    )
