"""Whose pods are placed, and by which options: as nobody says otherwise, or as a configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.engine.state.options import Options, options_of
from berth.kube.scheduler_configuration.model import SchedulerConfiguration
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME

# The scheduler names whose pods Berth places by default: its own, and the one of pods that name none.
SCHEDULERS = (DEFAULT_SCHEDULER_NAME, "berth")
_PREEMPTION = "DefaultPreemption"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSetup:
    """How pods are placed.

    Attributes:
        options: Of pods whose scheduler is not in `profiles`.
        profiles: By scheduler name.
        schedulers: Whose pods are placed.
        preempting: Which of them may preempt; None: all.
    """

    options: Options = field(default_factory=Options)
    profiles: Mapping[str, Options] = field(default_factory=dict)
    schedulers: tuple[str, ...] = SCHEDULERS
    preempting: frozenset[str] | None = None


def configured(
    configuration: SchedulerConfiguration, base: Options, names: tuple[str, ...] = ()
) -> SchedulerSetup:
    """What a configuration makes of it; `base` has what it does not say, `names` are those asked for.

    A profile for pods that name no scheduler also places those that name Berth, unless there is one for them.

    Raises:
        ValueError: a name is asked for that no profile has.
    """
    given = configuration.by_scheduler_name
    if DEFAULT_SCHEDULER_NAME in given:
        given = dict.fromkeys(SCHEDULERS, given[DEFAULT_SCHEDULER_NAME]) | given
    for name in names:
        if name not in given:
            known = ", ".join(configuration.by_scheduler_name)
            why = f"the configuration has no profile of this name, only {known}"
            raise ValueError(f"--scheduler-name {name}: {why}")
    given = {name: given[name] for name in names or given}
    profiles = {name: options_of(profile, base.gates, base=base) for name, profile in given.items()}
    return SchedulerSetup(
        options=profiles.get(DEFAULT_SCHEDULER_NAME, base),  # for pods that name no scheduler
        profiles=profiles,
        schedulers=tuple(given),
        preempting=frozenset(n for n, p in given.items() if p.enables("postFilter", _PREEMPTION)),
    )
