"""From the text of a file to a configuration, or to a sentence that says why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

from berth.kube.objects import Struct
from berth.kube.scheduler_configuration import plugins, wire
from berth.kube.scheduler_configuration.arguments import ParsedArguments, read_arguments, read_duration
from berth.kube.scheduler_configuration.model import (
    ClientConnection,
    LeaderElection,
    Profile,
    SchedulerConfiguration,
)
from berth.kube.text import json_reader
from berth.kube.text.decoding import (
    DecodeError,
    UnknownFieldError,
    YamlError,
    convert_fully,
    show,
    without_nulls,
)
from berth.kube.text.near import most_alike
from berth.kube.validation.errors import NOT_POSITIVE, Errors, Path, render
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME, SYSTEM_NAMESPACE

KIND = "KubeSchedulerConfiguration"
_BOM = "\ufeff"
_HUNDRED = 100
_REMOVED_FIELDS = ("healthzBindAddress", "metricsBindAddress")


class ConfigurationError(ValueError):
    """A configuration that cannot be used; the message is a sentence that names file and field."""


def load(
    path: str | FilePath, *, default_scheduler_name: str = DEFAULT_SCHEDULER_NAME
) -> SchedulerConfiguration:
    """The configuration in a file, YAML or JSON; a single profile without a name gets the default one.

    Raises:
        ConfigurationError: it cannot be read or used.
    """
    try:
        text = FilePath(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    return read(text, str(path), default_scheduler_name=default_scheduler_name)


def read(
    text: str, file: str = "configuration", *, default_scheduler_name: str = DEFAULT_SCHEDULER_NAME
) -> SchedulerConfiguration:
    """The configuration in a text, called `file` in messages; raises ConfigurationError if it is none."""
    try:
        raw = without_nulls(_value(text))
        _check_head(raw)
        found, errors = _complete(convert_fully(raw, wire.Configuration), default_scheduler_name)
    except (YamlError, json_reader.JsonError, DecodeError) as error:
        raise ConfigurationError(f"{file}: {error}") from None
    except UnknownFieldError as error:
        raise ConfigurationError(f'{file}: unknown field "{error.path}": {_advice(error.path)}') from None
    if errors:
        others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ConfigurationError(f"{file}: {errors[0]}{others}")
    return found


def default(scheduler_name: str = DEFAULT_SCHEDULER_NAME) -> SchedulerConfiguration:
    """What holds without a file."""
    return _complete(wire.Configuration(), scheduler_name)[0]


# --- text to fields ---------------------------------------------------------------------


def _value(text: str) -> object:
    text = text.removeprefix(_BOM)
    if text.lstrip().startswith("{"):
        content = text.encode()
        try:
            value = json_reader.to_builtins(content)
        except json_reader.JsonError:
            pass  # YAML may start like this, too
        else:
            if repeated := json_reader.repeated_keys(content):
                raise DecodeError(repeated[0], "is set twice in the same mapping")
            return value
    from berth.kube.text import yaml_reader  # noqa: PLC0415 - takes long, and not everybody has a file

    documents = [document.value for document in yaml_reader.read(text)]
    if len(documents) != 1:
        found = f"{len(documents)} of them" if documents else "nothing"
        raise DecodeError("", f"expected one {KIND}, found {found}")
    return documents[0]


def _check_head(raw: object) -> None:
    if not isinstance(raw, dict):
        raise DecodeError("", f"expected a {KIND}, got {show(raw)}")
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if kind != KIND:
        raise DecodeError("kind", f"expected {KIND}, got {show(kind)}" if kind else f"write kind: {KIND}")
    if version != plugins.API_VERSION:
        detail = f'no kind "{KIND}" is registered for version {show(version)}: write {plugins.API_VERSION}'
        raise DecodeError("apiVersion", detail)


def _advice(path: str) -> str:
    name = path.rpartition(".")[2]
    if name in _REMOVED_FIELDS:
        return "v1 has it no more, use the command line's options"
    structs = (kind for kind in vars(wire).values() if isinstance(kind, type) and issubclass(kind, Struct))
    close = most_alike(name, sorted({field for kind in structs for field in kind.__struct_encode_fields__}))
    return f'did you mean "{close[0]}"?' if close else "remove it or correct its name"


# --- fields to a configuration ------------------------------------------------------------


def _complete(given: wire.Configuration, default_name: str) -> tuple[SchedulerConfiguration, Errors]:
    errors, notes = Errors(), list[str]()
    profiles = _profiles(given.profiles or [wire.KubeSchedulerProfile()], default_name, errors, notes)
    election = given.leader_election or wire.LeaderElectionConfiguration()
    connection = given.client_connection or wire.ClientConnectionConfiguration()
    configuration = SchedulerConfiguration(
        profiles=profiles,
        leader_election=_leader_election(election, profiles, errors, ("leaderElection",)),
        client_connection=_client_connection(connection, errors),
        pod_initial_backoff_seconds=_or(given.pod_initial_backoff_seconds, 1),
        pod_max_backoff_seconds=_or(given.pod_max_backoff_seconds, 10),
        notes=(*notes, *_notes(given)),
    )
    _check(configuration, given, errors)
    return configuration, errors


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _check(configuration: SchedulerConfiguration, given: wire.Configuration, errors: Errors) -> None:
    if given.parallelism is not None and given.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        errors.invalid(("parallelism",), given.parallelism, detail)
    first, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if first <= 0:
        errors.invalid(("podInitialBackoffSeconds",), first, "must be greater than 0")
    if longest < first:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.invalid(("podMaxBackoffSeconds",), longest, detail)
    _check_percentage(given.percentage_of_nodes_to_score, errors, ())
    if given.extenders:
        errors.forbidden(("extenders",), "extenders are not supported: remove them")


def _check_percentage(percentage: int | None, errors: Errors, path: Path) -> None:
    if percentage is not None and not 0 <= percentage <= _HUNDRED:
        errors.invalid((*path, "percentageOfNodesToScore"), percentage, "not in valid range [0-100]")


def _percentage_notes(percentage: int | None, path: Path = ()) -> Iterator[str]:
    if percentage not in (None, 0, _HUNDRED):
        field = render((*path, "percentageOfNodesToScore"))
        yield f"{field} has no effect: Berth always looks at all nodes"


def _notes(given: wire.Configuration) -> Iterator[str]:
    yield from _percentage_notes(given.percentage_of_nodes_to_score)
    if given.parallelism is not None:
        yield "parallelism has no effect: Berth looks at all nodes at once"
    if given.delay_cache_until_active:
        yield "delayCacheUntilActive has no effect: a standby always keeps up with the cluster"


def _client_connection(given: wire.ClientConnectionConfiguration, errors: Errors) -> ClientConnection:
    if (given.burst or 0) < 0:
        errors.invalid(("clientConnection", "burst"), given.burst, "must be non-negative")
    return ClientConnection(kubeconfig=given.kubeconfig or "", qps=given.qps or 0.0, burst=given.burst or 100)


def _leader_election(
    given: wire.LeaderElectionConfiguration, profiles: Sequence[Profile], errors: Errors, path: Path
) -> LeaderElection:
    # If it serves kube-scheduler's pods it takes that one's lease, so that only one of them runs.
    replaces = any(profile.scheduler_name == DEFAULT_SCHEDULER_NAME for profile in profiles)
    known = len(errors)

    def duration(name: str, text: str | None, otherwise: float) -> float:
        return (read_duration(text, errors, (*path, name)) if text else 0.0) or otherwise

    found = LeaderElection(
        leader_elect=given.leader_elect is not False,
        lease_duration=duration("leaseDuration", given.lease_duration, 15.0),
        renew_deadline=duration("renewDeadline", given.renew_deadline, 10.0),
        retry_period=duration("retryPeriod", given.retry_period, 2.0),
        resource_name=given.resource_name or ("kube-scheduler" if replaces else "berth-scheduler"),
        resource_namespace=given.resource_namespace or SYSTEM_NAMESPACE,
    )
    if found.leader_elect and len(errors) == known:
        _check_election(found, given.resource_lock or "leases", errors, path)
    return found


def _check_election(found: LeaderElection, lock: str, errors: Errors, path: Path) -> None:
    for name, value in (
        ("leaseDuration", found.lease_duration),
        ("renewDeadline", found.renew_deadline),
        ("retryPeriod", found.retry_period),
    ):
        if value <= 0:
            errors.invalid((*path, name), f"{value:g}s", NOT_POSITIVE)
    if found.lease_duration <= found.renew_deadline:
        detail = "must be greater than `RenewDeadline`"
        errors.invalid((*path, "leaseDuration"), f"{found.lease_duration:g}s", detail)
    if lock != "leases":
        errors.invalid((*path, "resourceLock"), lock, 'resourceLock value must be "leases"')


# --- profiles ---------------------------------------------------------------------------


def _profiles(
    given: Sequence[wire.KubeSchedulerProfile], default_name: str, errors: Errors, notes: list[str]
) -> tuple[Profile, ...]:
    found: list[Profile] = []
    seen: dict[str, int] = {}
    for i, profile in enumerate(given):
        path: Path = ("profiles", i)
        name = profile.scheduler_name
        if name is None and len(given) == 1:
            name = default_name
        if not name:
            errors.required((*path, "schedulerName"), "every profile needs a name of its own")
        elif name in seen:
            errors.duplicate((*path, "schedulerName"), name, f"profiles[{seen[name]}] has it already")
        seen.setdefault(name or "", i)
        found.append(_profile(profile, name or "", errors, notes, path))
    _check_queue_sort(given, errors)
    return tuple(found)


def _profile(
    given: wire.KubeSchedulerProfile, name: str, errors: Errors, notes: list[str], path: Path
) -> Profile:
    _check_percentage(given.percentage_of_nodes_to_score, errors, path)
    listed = given.plugins or wire.Plugins()
    points, weights = plugins.enabled(listed, name, errors, (*path, "plugins"))
    reading = ParsedArguments(errors)
    args = read_arguments(given.plugin_config or [], reading, (*path, "pluginConfig"))
    configured = [config.name or "" for config in given.plugin_config or ()]
    idle = sorted({*plugins.mentioned(listed), *configured} & plugins.WITHOUT_EFFECT)
    notes += [f"{render(path)}: {plugin} has no effect: Berth has no such rule" for plugin in idle]
    notes += reading.notes
    notes += _inseparable(points, path)
    notes += _percentage_notes(given.percentage_of_nodes_to_score, path)
    return Profile(scheduler_name=name, plugins=points, weights=weights, args=args)


def _inseparable(enabled: plugins.Points, path: Path) -> Iterator[str]:
    """What is switched off by halves: in Berth a rule prepares itself when it is needed."""
    for before, point in (("preFilter", "filter"), ("preScore", "score")):
        both = plugins.POINTS[before] & enabled[point] - plugins.WITHOUT_EFFECT
        for name in sorted(both - enabled[before]):
            yield f"{render(path)}: {before} of {name} stays on with its {point}"
    if "SchedulingGates" not in enabled["preEnqueue"]:
        yield f"{render(path)}: SchedulingGates stays on: gated pods are never placed"


def _check_queue_sort(given: Sequence[wire.KubeSchedulerProfile], errors: Errors) -> None:
    def queue_sort(profile: wire.KubeSchedulerProfile) -> tuple[list[wire.Plugin], list[wire.Plugin]]:
        found = (profile.plugins or wire.Plugins()).at("queueSort")
        return found.enabled or [], found.disabled or []

    for i, profile in enumerate(given[1:], start=1):
        if queue_sort(profile) != queue_sort(given[0]):
            names = [plugin.name or "" for plugin in queue_sort(profile)[0]]
            path = ("profiles", i, "plugins", "queueSort")
            errors.invalid(path, names, "must be the same for all profiles")
