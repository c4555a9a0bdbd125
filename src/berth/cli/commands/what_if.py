"""`berth what-if`: what would happen?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from berth.cli.input.manifests import (
    Flags,
    changing_options,
    configured_setup,
    progress_bar,
    read_input,
    setup_of,
)
from berth.cli.input.options import Decorator, in_this_order, namespace_option, option, refusing
from berth.cli.input.validating import check_fields
from berth.cli.output.documents import present, what_if_document
from berth.cli.output.what_if_report import every_report, fit_report, report, scenario_report, versus_report
from berth.engine.offline.lookup import NotFoundError
from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.snapshot import read
from berth.engine.offline.what_if.changes import (
    FORMS,
    REPLACE_ALL,
    ClusterChange,
    ConfigurationChange,
    FullReplacement,
    WhatIfError,
    parse,
)
from berth.engine.offline.what_if.outcome import WhatIfOutcome
from berth.engine.offline.what_if.questions import EveryLoss, FittingReplicas, fit, lose_each
from berth.engine.offline.what_if.run import Comparison, make, settle, versus, what_if
from berth.engine.offline.what_if.scenario import KIND as SCENARIO
from berth.engine.offline.what_if.scenario import (
    Scenario,
    ScenarioError,
    ScenarioOutcome,
    is_scenario,
    read_scenario,
    run_scenario,
)
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.state.options import Options
from berth.kube.manifests.manifest import STDIN, Manifest, ManifestError, load
from berth.kube.manifests.positions import yaml_line
from berth.kube.scheduler_configuration.load import KIND as CONFIGURATION
from berth.kube.text import yaml_reader
from berth.kube.text.decoding import YamlError

# --- changes --------------------------------------------------------------------------------------
# The options that are changes, in the order in which they were given.

_ORDER = "berth.what-if.changes"  # their names, without dashes, and their values

_HELP = {
    "drain": "Cordon a node, or all that a selector (-l) matches, and evict its pods within their budgets.",
    "lose": "All nodes with this label are gone at once; zone=a, region=a and node=NAME are understood.",
    "cordon": "No new pod goes to this node.",
    "label": "Set a label of a node; NODE:KEY- removes it.",
    "taint": "Taint a node, NoExecute drives pods out; NODE:KEY- removes it.",
    "add": "Add N nodes like another, or the nodes in a file.",
    "scale": "Give a workload this many replicas.",
    "rollout": "Replace all pods of a workload, step by step as its strategy says.",
    "apply": "Apply the objects in a file: they come, or change what is there.",
    "delete": "Delete an object, with what belongs to it.",
    "config": "Schedule by this KubeSchedulerConfiguration from now on.",
    "evict": "Evict a pod, if its budget allows it.",
    REPLACE_ALL: "Take every pod off that is not tied to its node, and place all anew.",
}


def _option(name: str) -> Decorator:
    if name == REPLACE_ALL:
        return option(f"--{name}", _HELP[name], count=True)
    return option(f"--{name}", _HELP[name], multiple=True, metavar=FORMS[name])


# An option for every change, each of which may be repeated.
change_options = in_this_order(*map(_option, FORMS))


class ChangesInOrder(click.Command):
    """A command that knows in which order its changes were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = _with_selectors(args)
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        taken = dict.fromkeys(FORMS, 0)
        found: list[tuple[str, str]] = []
        for parameter in order:
            name = (parameter.name or "").replace("_", "-")
            if name in FORMS:
                given = values[parameter.name or ""]
                found.append((name, "" if name == REPLACE_ALL else str(given[taken[name]])))
                taken[name] += 1
        ctx.meta[_ORDER] = found
        return super().parse_args(ctx, args)


def _with_selectors(args: Sequence[str]) -> list[str]:
    """``--drain -l KEY=VALUE`` as one option with one value."""
    found: list[str] = []
    for arg in args:
        if len(found) > 1 and found[-1] in ("-l", "--selector") and found[-2] == "--drain":
            found[-1] = f"-l {arg}"
        else:
            found.append(arg)
    return found


class ChangeFiles:
    """Reads the files that changes name; an error in one ends the command.

    Attributes:
        folder: What relative names are relative to: the working directory, or the scenario's folder.
    """

    def __init__(self, options: Options, flags: Flags) -> None:
        self._options, self._flags = options, flags
        self.folder = Path()
        self.warnings: list[str] = []

    def _path(self, file: str) -> str:
        return file if file == STDIN else str(self.folder / file)

    def objects(self, file: str) -> list[Manifest]:
        try:
            found = load([self._path(file)])
        except ManifestError as error:
            raise WhatIfError(str(error)) from None
        self.warnings += check_fields(found, self._flags["validate"])
        return found

    def setup(self, file: str) -> SchedulerSetup:
        try:
            return configured_setup(self._path(file), self._options, self._flags["scheduler_names"])
        except click.ClickException as error:
            raise WhatIfError(error.message) from None


def scenario_from(file: str, files: ChangeFiles) -> Scenario:
    """The scenario in a file; what is wrong with it is told with its line."""
    text, value = _document(file)
    return _scenario(file, text, value, files)


def scenario_or_setup(file: str, files: ChangeFiles) -> Scenario | SchedulerSetup:
    """What to compare with: a scenario, or a scheduler's configuration."""
    text, value = _document(file)
    if is_scenario(value):
        return _scenario(file, text, value, files)
    if isinstance(value, dict) and value.get("kind") == CONFIGURATION:
        return files.setup(file)
    raise click.ClickException(f"{file}: expected a {CONFIGURATION} or a {SCENARIO}")


def _document(file: str) -> tuple[str, object]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise click.ClickException(f"{file}: no such file") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{file}: not UTF-8 text") from None
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be read: {error.strerror or error}") from None
    try:
        documents = [document.value for document in yaml_reader.read(text)]
    except YamlError as error:
        raise click.ClickException(f"{file}: not valid YAML: {error}") from None
    if len(documents) != 1:
        raise click.ClickException(f"{file}: expected one document, found {len(documents) or 'nothing'}")
    return text, documents[0]


def _scenario(file: str, text: str, value: object, files: ChangeFiles) -> Scenario:
    earlier, files.folder = files.folder, Path(file).parent
    try:
        return read_scenario(value, files, lambda path: f"{file}: line {yaml_line(text, path)}")
    except ScenarioError as error:
        line = yaml_line(text, error.path)
        raise click.ClickException(f"{file}: line {line}: {error}") from None
    finally:
        files.folder = earlier


# --- the command ----------------------------------------------------------------------------------

# Kinds that are listed from a live cluster beside those that placing pods needs.
_ALSO_NEEDED = ("Deployment", "DaemonSet", "PodDisruptionBudget", "PodGroup")
_MODES = ("every", "fitted", "scenario", "vs")  # options that ask for something else than what happens
_Answer = WhatIfOutcome | EveryLoss | FittingReplicas | ScenarioOutcome | Comparison


@click.command("what-if", cls=ChangesInOrder)
@change_options
@option("--every", "Lose each zone, node, or domain of a label in turn.", metavar="zone|node|KEY")
@option("--fit", "How many further replicas fit, and what stops the next.", "fitted", metavar="KIND/NAME")
@option("--scenario", "Changes in named steps, with what is expected of each.", metavar="FILE")
@option("--vs", "Compare with another scheduler configuration, or with a scenario.", metavar="FILE")
@changing_options
@namespace_option("Where workloads and pods are that name no namespace.")
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:  # noqa: ANN401 - changes are read in their order
    """Say what would happen to the pods of a cluster, before it happens.

    Changes are made in the order in which they are given, and between two of them the scheduler places
    what has no node. The cluster is that of the files (-f), or a live one, which is only read; --apply lays
    files over it. NODE, POD and KIND/NAME are names such as n1, web-0 and deploy/web; shop/deploy/web is
    one in namespace shop.
    Exit code 0: every pod has a node, every drain ends and no hard rule is newly broken (with --scenario: all
    expectations hold); 1: not so; 2: bad input.
    """
    changes: list[tuple[str, str]] = ctx.meta[_ORDER]
    _refuse_mixtures(changes, {mode: flags[mode] for mode in _MODES})
    # Here a configuration is a change, and not how the pods are placed that have no node yet.
    with refusing(WhatIfError, NotFoundError):
        return 0 if _Question({**flags, "config": None}).answer(changes) else 1


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
    """A question about a cluster: each method shows an answer, and returns whether all is well."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._setup = setup_of(flags)
        self._files = ChangeFiles(self._setup.options, flags)

    def answer(self, given: Sequence[tuple[str, str]]) -> bool:
        every, fitted, scenario, vs = (self._flags[mode] for mode in _MODES)
        changes = [parse(name, text, self._files) for name, text in given]
        steps = None if scenario is None else scenario_from(scenario, self._files)
        against = None if vs is None else scenario_or_setup(vs, self._files)
        self._snapshot = read_input(self._flags, *_ALSO_NEEDED, setup=self._setup)
        self._snapshot.warnings += self._files.warnings
        self._manifests, self._used = list(self._snapshot.manifests), False
        if vs is not None and against is not None:
            return self._versus(vs, against, steps.changes if steps else changes)
        if steps is not None:
            return self._show("ScenarioOutcome", run_scenario(steps, self._world), scenario_report)
        world = self._world(reasons=every is None and fitted is None)
        found: _Answer
        if every is not None:
            make(world, changes)
            with progress_bar("losing each in turn") as progress:
                found = lose_each(world, every, progress)
            return self._show("EveryLoss", found, every_report)
        if fitted is not None:
            make(world, changes)
            with progress_bar("adding replicas") as progress:
                found = fit(world, fitted, progress)
            return self._show("Fit", found, fit_report)
        with progress_bar("changing") as progress:
            found = what_if(world, changes, progress)
        return self._show("WhatIf", found, report)

    def _show(self, kind: str, found: _Answer, report: Callable[..., Iterable[str]]) -> bool:
        document = partial(what_if_document, kind, found, self._snapshot)
        present(self._flags["form"], document, partial(report, found))
        return found.ok

    def _versus(
        self, file: str, against: Scenario | SchedulerSetup, changes: Sequence[ClusterChange]
    ) -> bool:
        theirs = against.changes if isinstance(against, Scenario) else []
        if not isinstance(against, Scenario):
            # Without a change there would be nothing to compare: then all pods are placed anew.
            changes = changes or [FullReplacement()]
            # Both configurations begin with the same pods on the same nodes.
            options = replace(against.options, version=self._snapshot.cluster.options.version)
            configuration = ConfigurationChange(replace(against, options=options), file)
            theirs = [configuration, *changes]
        other, mine = self._world(), self._world()
        said = ", ".join(change.words for change in changes) or "nothing is changed"
        return self._show("Versus", versus((said, mine, changes), (file, other, theirs)), versus_report)

    def _world(self, *, reasons: bool = True) -> ChangingWorld:
        """A world that begins with the cluster as it was read."""
        snapshot, setup = self._snapshot, self._setup
        if self._used:  # the snapshot was changed by an earlier world
            options = replace(setup.options, version=snapshot.cluster.options.version)
            snapshot = read(self._manifests, options, None, snapshot.origin)
            snapshot.notes = self._snapshot.notes
        self._used = True
        namespace, seed = self._flags["namespace"], self._flags["seed"]
        world = ChangingWorld(snapshot, setup, namespace=namespace, seed=seed, reasons=reasons)
        with progress_bar("placing pods") as progress:
            settle(world, progress)
        return world
