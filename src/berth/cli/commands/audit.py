"""`berth audit`: which rules do running pods break, and who would be evicted for it?"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from berth.cli.input.manifests import progress_bar, read_input, reading_options
from berth.cli.input.options import Decorator, namespace_option, option
from berth.cli.output.audit_report import report
from berth.cli.output.documents import audit_document, present
from berth.engine.execution.eviction_ceiling import Ceiling, HaltPolicy
from berth.engine.execution.rebalancing import Rebalance, RebalancePolicy
from berth.engine.offline.audit import audit
from berth.engine.rules import AUDITED_RULES
from berth.kube import names

_CEILING = Ceiling()


def _as_given(name: str, words: str, **more: Any) -> Decorator:  # noqa: ANN401 - click's own
    return option(name, f"As given to 'berth controllers': {words}", **more)


@click.command("audit")
@reading_options
@namespace_option("Show only this namespace (all pods are counted).")
@option(
    "--rule",
    f"Show only this rule: {', '.join(AUDITED_RULES)}. May be repeated.",
    "rules",
    multiple=True,
    type=click.Choice(AUDITED_RULES, case_sensitive=False),
    metavar="NAME",
)
@_as_given(
    "--eviction-domain",
    "the node label that names a node's domain.",
    default=_CEILING.domain_key,
    metavar="LABEL",
)
@_as_given(
    "--max-evicted-share",
    "halt a domain while more than this share would go.",
    type=click.FloatRange(0, 1, min_open=True),
    default=_CEILING.max_share,
    metavar="SHARE",
)
@_as_given(
    "--halt-above",
    "so few are never too many.",
    type=click.IntRange(min=0),
    default=_CEILING.halt_above,
    metavar="PODS",
)
@_as_given(
    "--halt-policy",
    "who goes from a halted domain.",
    type=click.Choice([policy.value for policy in HaltPolicy]),
    default=_CEILING.policy.value,
)
@option(
    "--rebalance",
    "Also show who would be moved for evenness: with the policy given to 'berth controllers', "
    "or without one of workloads with the annotation berth.dev/rebalance.",
    type=click.Choice([policy.value for policy in RebalancePolicy]),
    is_flag=False,
    flag_value=RebalancePolicy.OFF.value,
)
@_as_given(
    "--rebalance-margin",
    "how much more even a move must make it.",
    type=click.FloatRange(0, min_open=True),
    default=Rebalance().margin,
    metavar="PODS",
)
@_as_given(
    "--rebalance-waits-for-nodes", "for a hard constraint a pod may wait for a new node.", is_flag=True
)
def command(**flags: Any) -> int:  # noqa: ANN401 - one an option
    """Find the running pods that break a rule now, uneven spreading, and who would be evicted.

    A pod breaks a rule if it could not be placed where it runs. All rules are hard except for a cordon and
    for NoSchedule taints, which are only for newcomers, and ScheduleAnyway constraints. Rules that must
    hold while a pod runs (requiredDuringSchedulingRequiredDuringExecution, NoExecute taints) are marked.
    For the former it is shown what 'berth controllers' would evict, and what would hold it back: a
    PodDisruptionBudget, or a halt because too many pods would go at once: there those whose replacement
    has a node go one by one, and the others stay. Without -f it reads the
    cluster of --kubeconfig, by default the one kubectl would talk to, and changes nothing there.
    Exit code 0: every hard rule holds; 1: one is broken; 2: bad input.
    """
    domain = flags["eviction_domain"]
    if problems := names.label_key_errors(domain):
        raise click.UsageError(f"--eviction-domain {domain}: {problems[0]}")
    ceiling = Ceiling(
        domain_key=domain,
        max_share=flags["max_evicted_share"],
        halt_above=flags["halt_above"],
        policy=HaltPolicy(flags["halt_policy"]),
    )
    how = None
    if flags["rebalance"] is not None:
        policy, margin = RebalancePolicy(flags["rebalance"]), flags["rebalance_margin"]
        how = Rebalance(policy=policy, margin=margin, waits=flags["rebalance_waits_for_nodes"])
    snapshot = read_input(flags, "PodDisruptionBudget", *(("Deployment", "ReplicaSet") if how else ()))
    with progress_bar("judging pods") as progress:
        found = audit(snapshot, progress, ceiling, how)
    shown = found.only(flags["namespace"], flags["rules"])
    present(flags["form"], lambda: audit_document(shown), partial(report, shown))
    return 0 if shown.clean else 1
