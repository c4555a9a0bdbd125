"""Changes in named steps, with what is expected of each: a regression test of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from berth.engine.offline.what_if.changes import FORMS, REPLACE_ALL, ClusterChange, Files, WhatIfError, parse
from berth.engine.offline.what_if.outcome import WhatIfOutcome
from berth.engine.offline.what_if.run import what_if
from berth.engine.offline.what_if.world import ChangingWorld
from berth.kube.text.near import most_alike
from berth.kube.validation.errors import Path
from berth.kube.well_known import BERTH_API_VERSION

KIND = "Scenario"
ALL = "all"
_TOP = ("apiVersion", "kind", "name", "steps")
_REPLACE_ALL_FIELD = "replaceAll"
_CHANGES = {(_REPLACE_ALL_FIELD if name == REPLACE_ALL else name): name for name in FORMS}
_STEP = ("name", "fresh", "expect", "changes", *_CHANGES)
# What can be expected, each as a number of the outcome; all but `placed` are limits from above.
_NUMBERS: Mapping[str, Callable[[WhatIfOutcome], int]] = {
    "placed": lambda found: found.measures.placed,
    "unplaced": lambda found: len(found.unplaced),
    "moved": lambda found: len(found.moves),
    "skew": lambda found: found.measures.worst_skew,
    "broken": lambda found: sum(rule.hard for rule in found.broken),
    "preempted": lambda found: len(found.preempted),
    "lost": lambda found: found.lost,
    "blocked": lambda found: len(found.blocked),
    "rounds": lambda found: found.last_round,
}

# Name, text and place of a change -> the change.
_Reads = Callable[[str, str, Path], ClusterChange]


class ScenarioError(Exception):
    """A scenario that cannot be used: what is wrong, and where in the document."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """Changes that are judged together; a `fresh` one begins with the cluster as it was."""

    name: str
    changes: list[ClusterChange]
    expect: dict[str, int | str]
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    steps: list[ScenarioStep]

    @property
    def changes(self) -> list[ClusterChange]:
        """All that were made when it ends: those since it began with a fresh cluster for the last time."""
        found: list[ClusterChange] = []
        for step in self.steps:
            found = [*([] if step.fresh else found), *step.changes]
        return found


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    expected: str
    found: int
    ok: bool


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """`ok`: what was expected came; without an expectation, all is well."""

    name: str
    ok: bool
    expectations: list[Expectation]
    outcome: WhatIfOutcome


class ScenarioOutcome(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    sentence: str
    ok: bool
    steps: list[StepOutcome]


# --- reading -------------------------------------------------------------------------------------------


def is_scenario(value: object) -> bool:
    return isinstance(value, dict) and (value.get("kind") == KIND or "steps" in value)


def read_scenario(value: object, files: Files, place: Callable[[Path], str]) -> Scenario:
    """The scenario in a decoded document; `place` says in words where in it something is written.

    Raises:
        ScenarioError: it is none.
    """
    top = _mapping(value, (), _TOP, "a scenario")
    for field, wanted in (("kind", KIND), ("apiVersion", BERTH_API_VERSION)):
        if top.get(field, wanted) != wanted:
            raise ScenarioError((field,), f"{field}: expected {wanted}, got {top[field]}")
    steps = top.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(("steps",), "steps: expected a list of steps, each with a name and changes")

    def read(name: str, text: str, path: Path) -> ClusterChange:
        try:
            return msgspec.structs.replace(parse(name, text, files), place=place(path))
        except WhatIfError as error:
            raise ScenarioError(path, str(error).removeprefix("--")) from None

    found = [_step(step, ("steps", i), read) for i, step in enumerate(steps)]
    return Scenario(str(top.get("name") or ""), found)


def _step(value: object, path: Path, read: _Reads) -> ScenarioStep:
    step = _mapping(value, path, _STEP, "a step")
    changes: list[ClusterChange] = []
    for field, given in step.items():
        if field in _CHANGES:
            changes += _changes(field, given, (*path, field), read)
        elif field == "changes":
            changes += _listed(given, (*path, field), read)
    name = step.get("name")
    if name is not None and not isinstance(name, str | int):
        raise ScenarioError((*path, "name"), "name: expected a text")
    fresh = step.get("fresh", False)
    if not isinstance(fresh, bool):
        raise ScenarioError((*path, "fresh"), f"fresh: expected true or false, got {fresh}")
    number = path[-1]
    title = str(name) if name else f"step {number + 1 if isinstance(number, int) else number}"
    return ScenarioStep(title, changes, _expected(step.get("expect"), (*path, "expect")), fresh)


def _listed(given: object, path: Path, read: _Reads) -> list[ClusterChange]:
    if not isinstance(given, list):
        raise ScenarioError(path, "changes: expected a list of changes, such as - drain: n1")
    found: list[ClusterChange] = []
    for i, each in enumerate(given):
        mapping = _mapping(each, (*path, i), tuple(_CHANGES), "a change")
        for field, value in mapping.items():
            found += _changes(field, value, (*path, i, field), read)
    return found


def _changes(field: str, given: object, path: Path, read: _Reads) -> list[ClusterChange]:
    name = _CHANGES[field]
    if name == REPLACE_ALL:
        if not isinstance(given, bool):
            raise ScenarioError(path, f"{field}: expected true or false, got {given}")
        given = [""] if given else []
    found: list[ClusterChange] = []
    for i, each in enumerate(given if isinstance(given, list) else [given]):
        at = (*path, i) if isinstance(given, list) and name != REPLACE_ALL else path
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise ScenarioError(at, f"{field}: expected {FORMS[name]}, got {_shown(each)}")
        found.append(read(name, str(each), at))
    return found


def _expected(given: object, path: Path) -> dict[str, int | str]:
    if given is None:
        return {}
    found = _mapping(given, path, tuple(_NUMBERS), "an expectation")
    for name, value in found.items():
        if name == "placed" and value == ALL:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            allowed = f"{ALL} or a number" if name == "placed" else "a number"
            raise ScenarioError((*path, name), f"{name}: expected {allowed}, got {_shown(value)}")
    return found


def _mapping(value: object, path: Path, allowed: Sequence[str], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScenarioError(path, f"expected {what} with some of {', '.join(allowed)}; got {_shown(value)}")
    for name in value:
        if name not in allowed:
            near = most_alike(str(name), allowed)
            hint = f"did you mean {near[0]}? " if near else ""
            known = f"it may have {', '.join(allowed)}"
            raise ScenarioError((*path, name), f"{what} has no {name}; {hint}{known}")
    return value


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else f"'{value}'"


# --- running -------------------------------------------------------------------------------------------


def run_scenario(scenario: Scenario, start: Callable[[], ChangingWorld]) -> ScenarioOutcome:
    """Go through the steps, each where the one before it ended; `start` makes a settled world.

    Raises:
        WhatIfError: a change cannot be made; the message says where it is written.
    """
    world: ChangingWorld | None = None
    steps: list[StepOutcome] = []
    for step in scenario.steps:
        if world is None or step.fresh:
            world = start()
        found = what_if(world, step.changes)
        met = [_met(name, wanted, found) for name, wanted in step.expect.items()]
        ok = all(each.ok for each in met) if met else found.ok
        steps.append(StepOutcome(name=step.name, ok=ok, expectations=met, outcome=found))
    failed = [step.name for step in steps if not step.ok]
    if not failed:
        sentence = f"all {len(steps)} steps hold." if len(steps) > 1 else f"{steps[0].name} holds."
    else:
        sentence = f"{len(failed)} of {len(steps)} steps do not hold: {', '.join(failed)}."
    return ScenarioOutcome(name=scenario.name, sentence=sentence, ok=not failed, steps=steps)


def _met(name: str, wanted: int | str, found: WhatIfOutcome) -> Expectation:
    number = _NUMBERS[name](found)
    if wanted == ALL:
        return Expectation(expected="every pod placed", found=number, ok=not found.unplaced)
    if name == "placed":
        return Expectation(expected=f"placed {wanted}", found=number, ok=number == wanted)
    return Expectation(expected=f"{name} at most {wanted}", found=number, ok=number <= int(wanted))
