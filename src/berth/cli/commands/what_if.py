"""`berth what-if`: what would happen?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import click

from berth.cli.input.changes import (
    ChangeFiles,
    ChangesInOrder,
    change_options,
    given_changes,
    scenario_from,
    scenario_or_setup,
)
from berth.cli.input.manifests import (
    PlacingSettings,
    changing_options,
    progress_bar,
    read_input,
    setup_of,
)
from berth.cli.input.options import option, refusing
from berth.cli.output.documents import present, what_if_document
from berth.cli.output.what_if_report import (
    every_report,
    fit_report,
    report,
    scenario_report,
    versus_report,
)
from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.snapshot import Snapshot, read
from berth.engine.offline.what_if.changes import (
    FORMS,
    ClusterChange,
    ReplaceAll,
    UseConfiguration,
    WhatIfError,
    parse,
)
from berth.engine.offline.what_if.outcome import WhatIfOutcome
from berth.engine.offline.what_if.questions.every import EveryLoss, lose_each
from berth.engine.offline.what_if.questions.fitting import FittingReplicas, fit
from berth.engine.offline.what_if.questions.scenario import Scenario, ScenarioOutcome, run_scenario
from berth.engine.offline.what_if.questions.versus import Versus, versus
from berth.engine.offline.what_if.running import make, settle, what_if
from berth.engine.offline.what_if.world import ChangingWorld

# What a live cluster is asked for beside what placing pods needs.
_ALSO_NEEDED = ("Deployment", "DaemonSet", "PodDisruptionBudget", "PodGroup")
Answer = WhatIfOutcome | EveryLoss | FittingReplicas | ScenarioOutcome | Versus


@click.command("what-if", cls=ChangesInOrder)
@change_options
@option("--every", "Lose each zone, node, or domain of a label in turn.", metavar="zone|node|KEY")
@option("--fit", "How many further replicas fit, and what stops the next.", "fitted", metavar="KIND/NAME")
@option("--scenario", "Changes in named steps, with what is expected of each.", metavar="FILE")
@option("--vs", "Compare with another scheduler configuration, or with a scenario.", metavar="FILE")
@changing_options
@click.option("-n", "--namespace", metavar="NS", help="Where workloads and pods are that name no namespace.")
@click.pass_context
def command(ctx: click.Context, /, **settings: Any) -> None:  # noqa: ANN401 - changes are read in their order
    """Say what would happen to the pods of a cluster, before it happens.

    Changes are made in the order in which they are given, and between two of them the scheduler places
    what has no node. The cluster is that of the files (-f), or a live one, which is only read; --apply lays
    files over it. NODE, POD and KIND/NAME are names such as n1, web-0 and deploy/web; shop/deploy/web is
    one in namespace shop.
    Exit code 0: every pod has a node, every drain ends and no hard rule is newly broken (with --scenario: all
    expectations hold); 1: not so; 2: bad input.
    """
    for name in FORMS:
        settings.pop(name.replace("-", "_"))
    modes = {name: settings.pop(name) for name in ("every", "fitted", "scenario", "vs")}
    form, namespace = settings.pop("form"), settings.pop("namespace")
    placing = cast("PlacingSettings", {**settings, "config": None})
    _refuse_mixtures(given_changes(ctx), modes)
    with refusing(WhatIfError):
        ok = _Question(placing, namespace, form).answer(given_changes(ctx), **modes)
    ctx.exit(0 if ok else 1)


def _refuse_mixtures(changes: Sequence[tuple[str, str]], modes: dict[str, str | None]) -> None:
    given = [name for name, value in modes.items() if value is not None]
    if not changes and not given:
        options = ", ".join(f"--{name}" for name in FORMS)
        raise click.UsageError(
            f"there is no change to make; give {options}, --every, --fit, --scenario or --vs"
        )
    if len({*given} - {"vs"}) > 1 or ("vs" in given and {"every", "fitted"}.intersection(given)):
        flags = " and ".join("--fit" if name == "fitted" else f"--{name}" for name in given)
        raise click.UsageError(f"{flags} answer different questions; give one of them")
    if changes and modes["scenario"] is not None:
        raise click.UsageError(f"--scenario has changes of its own; put --{changes[0][0]} into a step of it")


class _Question:
    """What is asked of which cluster; every answer is shown, and says whether all is well."""

    def __init__(self, placing: PlacingSettings, namespace: str | None, form: str) -> None:
        self._placing = placing
        self._namespace = namespace
        self._form = form
        self._setup = setup_of(placing)
        self._files = ChangeFiles(self._setup.options, placing["scheduler_names"], placing["validate"])

    def answer(
        self,
        given: Sequence[tuple[str, str]],
        *,
        every: str | None,
        fitted: str | None,
        scenario: str | None,
        vs: str | None,
    ) -> bool:
        changes = [parse(name, text, self._files) for name, text in given]
        steps = None if scenario is None else scenario_from(scenario, self._files)
        against = None if vs is None else scenario_or_setup(vs, self._files)
        snapshot = read_input(self._placing, *_ALSO_NEEDED, setup=self._setup)
        snapshot.warnings += self._files.warnings
        start = _Start(snapshot, self._setup, self._namespace, self._placing["seed"])
        if vs is not None and against is not None:
            return self._versus(start, vs, against, steps.changes if steps else changes)
        if steps is not None:
            return self._scenario(start, steps)
        world = start.world(reasons=every is None and fitted is None)
        if every is not None:
            return self._every(world, changes, every)
        if fitted is not None:
            return self._fit(world, changes, fitted)
        with progress_bar("changing") as progress:
            found = what_if(world, changes, progress)
        return self._show("WhatIf", found, snapshot, report)

    def _show(
        self, kind: str, found: Answer, snapshot: Snapshot, report: Callable[..., Iterable[str]]
    ) -> bool:
        present(self._form, lambda: what_if_document(kind, found, snapshot), partial(report, found))
        return found.ok

    def _every(self, world: ChangingWorld, changes: Sequence[ClusterChange], key: str) -> bool:
        make(world, changes)
        with progress_bar("losing each in turn") as progress:
            found = lose_each(world, key, progress)
        return self._show("EveryLoss", found, world.snapshot, every_report)

    def _fit(self, world: ChangingWorld, changes: Sequence[ClusterChange], workload: str) -> bool:
        make(world, changes)
        with progress_bar("adding replicas") as progress:
            found = fit(world, workload, progress)
        return self._show("Fit", found, world.snapshot, fit_report)

    def _scenario(self, start: _Start, scenario: Scenario) -> bool:
        found = run_scenario(scenario, start.world)
        return self._show("ScenarioOutcome", found, start.snapshot, scenario_report)

    def _versus(
        self, start: _Start, file: str, against: Scenario | SchedulerSetup, changes: Sequence[ClusterChange]
    ) -> bool:
        theirs = against.changes if isinstance(against, Scenario) else []
        if not isinstance(against, Scenario):
            # Without a change there would be nothing to place, and nothing to compare.
            changes = changes or [ReplaceAll()]
            # Both begin with the same pods on the same nodes.
            options = replace(against.options, version=start.snapshot.cluster.options.version)
            configuration = UseConfiguration(replace(against, options=options), file)
            theirs = [configuration, *changes]
        other, mine = start.world(), start.world()
        said = ", ".join(change.words for change in changes) or "nothing is changed"
        found = versus((said, mine, changes), (file, other, theirs))
        return self._show("Versus", found, start.snapshot, versus_report)


class _Start:
    """The cluster as it was read; every world begins with it."""

    def __init__(
        self, snapshot: Snapshot, setup: SchedulerSetup, namespace: str | None, seed: int | None
    ) -> None:
        self.snapshot = snapshot
        self._setup = setup
        self._manifests = list(snapshot.manifests)
        self._namespace = namespace
        self._seed = seed
        self._used = False

    def world(self, *, reasons: bool = True) -> ChangingWorld:
        snapshot, setup = self.snapshot, self._setup
        if self._used:  # somebody has changed it since
            options = replace(setup.options, version=snapshot.cluster.options.version)
            snapshot = read(self._manifests, options, None, snapshot.origin)
            snapshot.notes = self.snapshot.notes
        self._used = True
        world = ChangingWorld(snapshot, setup, namespace=self._namespace, seed=self._seed, reasons=reasons)
        with progress_bar("placing pods") as progress:
            settle(world, progress)
        return world
