"""`berth audit`: which rules do running pods break, and who would be evicted for it?"""

from __future__ import annotations

from functools import partial
from typing import Unpack

import click

from berth.cli.input.manifests import InputSettings, progress_bar, read_input, reading_options
from berth.cli.output.audit_report import report
from berth.cli.output.documents import audit_document, present
from berth.engine.execution.eviction_ceiling import Ceiling, HaltPolicy
from berth.engine.execution.rebalancing import Rebalance, RebalancePolicy
from berth.engine.offline.audit import audit
from berth.engine.rules import AUDITED_RULES
from berth.kube import names

_CEILING = Ceiling()


@click.command("audit")
@reading_options
@click.option("-n", "--namespace", metavar="NS", help="Show only this namespace (all pods are counted).")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    type=click.Choice(AUDITED_RULES, case_sensitive=False),
    metavar="NAME",
    help=f"Show only this rule: {', '.join(AUDITED_RULES)}. May be repeated.",
)
@click.option(
    "--eviction-domain",
    default=_CEILING.domain_key,
    show_default=True,
    metavar="LABEL",
    help="As given to 'berth controllers': the node label that names a node's domain.",
)
@click.option(
    "--max-evicted-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=_CEILING.max_share,
    show_default=True,
    metavar="SHARE",
    help="As given to 'berth controllers': halt a domain while more than this share would go.",
)
@click.option(
    "--halt-above",
    type=click.IntRange(min=0),
    default=_CEILING.halt_above,
    show_default=True,
    metavar="PODS",
    help="As given to 'berth controllers': so few are never too many.",
)
@click.option(
    "--halt-policy",
    type=click.Choice([policy.value for policy in HaltPolicy]),
    default=_CEILING.policy.value,
    show_default=True,
    help="As given to 'berth controllers': who goes from a halted domain.",
)
@click.option(
    "--rebalance",
    type=click.Choice([policy.value for policy in RebalancePolicy]),
    is_flag=False,
    flag_value=RebalancePolicy.OFF.value,
    help="Also show who would be moved for evenness: with the policy given to 'berth controllers', "
    "or without one of workloads with the annotation berth.dev/rebalance.",
)
@click.option(
    "--rebalance-margin",
    type=click.FloatRange(0, min_open=True),
    default=Rebalance().margin,
    show_default=True,
    metavar="PODS",
    help="As given to 'berth controllers': how much more even a move must make it.",
)
@click.option(
    "--rebalance-waits-for-nodes",
    is_flag=True,
    help="As given to 'berth controllers': for a hard constraint a pod may wait for a new node.",
)
@click.pass_context
def command(  # noqa: PLR0913 - one parameter an option
    ctx: click.Context,
    *,
    form: str,
    namespace: str | None,
    rules: tuple[str, ...],
    eviction_domain: str,
    max_evicted_share: float,
    halt_above: int,
    halt_policy: str,
    rebalance: str | None,
    rebalance_margin: float,
    rebalance_waits_for_nodes: bool,
    **settings: Unpack[InputSettings],
) -> None:
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
    if problems := names.label_key_errors(eviction_domain):
        raise click.UsageError(f"--eviction-domain {eviction_domain}: {problems[0]}")
    ceiling = Ceiling(
        domain_key=eviction_domain,
        max_share=max_evicted_share,
        halt_above=halt_above,
        policy=HaltPolicy(halt_policy),
    )
    how = None
    if rebalance is not None:
        policy = RebalancePolicy(rebalance)
        how = Rebalance(policy=policy, margin=rebalance_margin, waits=rebalance_waits_for_nodes)
    snapshot = read_input(settings, "PodDisruptionBudget", *(("Deployment", "ReplicaSet") if how else ()))
    with progress_bar("judging pods") as progress:
        found = audit(snapshot, progress, ceiling, how)
    shown = found.only(namespace, rules)
    present(form, lambda: audit_document(shown), partial(report, shown))
    ctx.exit(0 if shown.clean else 1)
