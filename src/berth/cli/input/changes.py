"""The options of `berth what-if` that are changes, in the order in which they were given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from berth.cli.input.manifests import configured_setup
from berth.cli.input.options import Decorator, in_this_order, option
from berth.cli.input.validating import check_fields
from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.what_if.changes import FORMS, REPLACE_ALL, WhatIfError
from berth.engine.offline.what_if.questions.scenario import KIND as SCENARIO
from berth.engine.offline.what_if.questions.scenario import (
    Scenario,
    ScenarioError,
    is_scenario,
    read_scenario,
)
from berth.engine.state.options import Options
from berth.kube.manifests.manifest import STDIN, Manifest, ManifestError, load
from berth.kube.scheduler_configuration.reading import KIND as CONFIGURATION
from berth.kube.text import yaml_reader
from berth.kube.text.lines import yaml_line

_ORDER = "berth.what-if.changes"

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


def given_changes(ctx: click.Context) -> list[tuple[str, str]]:
    """The names of the changes, without dashes, and their values."""
    found: list[tuple[str, str]] = ctx.meta[_ORDER]
    return found


class ChangeFiles:
    """The files that changes name; whatever is wrong with one ends the command.

    Attributes:
        folder: Where relative names begin: where the user is, or where the scenario is.
    """

    def __init__(self, options: Options, scheduler_names: tuple[str, ...], validate: str) -> None:
        self._options = options
        self._names = scheduler_names
        self._validate = validate
        self.folder = Path()
        self.warnings: list[str] = []

    def _path(self, file: str) -> str:
        return file if file == STDIN else str(self.folder / file)

    def objects(self, file: str) -> list[Manifest]:
        try:
            found = load([self._path(file)])
        except ManifestError as error:
            raise WhatIfError(str(error)) from None
        self.warnings += check_fields(found, self._validate)
        return found

    def setup(self, file: str) -> SchedulerSetup:
        try:
            return configured_setup(self._path(file), self._options, self._names)
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
    except yaml_reader.YamlError as error:
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
