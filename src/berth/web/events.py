"""The newest Events of a cluster, each once however often it was counted, and the evictions they tell of.

Every eviction is a story: a rule broken → refusals → where a replacement was expected → where it is. Only
Events are read, so it does not matter where the evicting machine runs; which pod replaces which follows from
the workload that made both. A pod goes because a rule broke, for evenness, or because of a taint; in the last
case no disruption budget is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from berth.eviction.reports import EVENTS, FAILURES
from berth.eviction.state import NODE_KIND, POD_KIND, SPREAD_KIND
from berth.kube.objects import Key, RawObject, TypedObject
from berth.web.overview import NodeRow, PodRow

_KEPT_EVENTS = 1000

Story = dict[str, Any]

RULE, EVENNESS, TAINT = "rule", "evenness", "taint"
_CAUSES = {NODE_KIND: RULE, POD_KIND: RULE, SPREAD_KIND: EVENNESS}
_EVICTIONS = {reason: _CAUSES[kind] for kind, reason in EVENTS.items()} | {"TaintManagerEviction": TAINT}
_REFUSALS = {reason: _CAUSES[kind] for kind, reason in FAILURES.items()}
_EVICTED = re.compile(
    r"Evicted: (?P<broken>.*?)(?:\. (?P<place>Its replacement would go to .*|No node could .*)\.)?$"
)
_KEPT = "Cancelling deletion"  # a taint was taken off in time
_ASSIGNED = re.compile(r"Successfully assigned \S+ to (?P<node>\S+)")
_REFUSED = re.compile(r"Could not evict: (?P<why>.*?) \((?P<broken>.*)\)$")
_CREATED = re.compile(r"(?:Created pod: |create Pod )(?P<pod>\S+)")


class PageEvent(TypedObject, frozen=True):
    """The fields of an Event that the page shows."""

    involved_object: RawObject = msgspec.field(default_factory=dict)
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    source: RawObject | None = None
    reporting_component: str | None = None


class EventLog:
    """The newest Events, in the order in which they were last heard of."""

    def __init__(self) -> None:
        self._kept: dict[str, RawObject] = {}
        self._unnamed = 0

    def __iter__(self) -> Iterator[RawObject]:
        return iter(self._kept.values())

    def put(self, event: PageEvent) -> RawObject:
        """Keep an Event in place of its older version; returns it as the page shows it."""
        name = event.metadata.name
        if not name:  # possible in a file
            self._unnamed += 1
            name = f"#{self._unnamed}"
        told = _told(event, f"{event.metadata.namespace or ''}/{name}")
        self._kept.pop(told["id"], None)
        self._kept[told["id"]] = told
        if len(self._kept) > _KEPT_EVENTS:
            del self._kept[next(iter(self._kept))]
        return told


def _told(event: PageEvent, name: str) -> RawObject:
    about = event.involved_object
    return {
        "id": name,
        "time": event.last_timestamp or event.event_time or event.first_timestamp,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": event.count or 1,
        "by": (event.source or {}).get("component") or event.reporting_component,
        "kind": about.get("kind"),
        "namespace": about.get("namespace"),
        "name": about.get("name"),
    }


def eviction_stories(
    events: Iterable[RawObject], pods: Mapping[Key, PodRow], nodes: Mapping[str, NodeRow]
) -> list[Story]:
    """One story for each pod that was evicted, or was to be; the newest first."""
    told = sorted(events, key=lambda event: event["time"] or "")
    stories: dict[Key, Story] = {}
    for event in told:
        if event["reason"] in _REFUSALS:
            _refused(stories.setdefault(_key(event), _new(event, _REFUSALS[event["reason"]])), event)
        elif event["reason"] in _EVICTIONS:
            _evicted(stories.setdefault(_key(event), _new(event, _EVICTIONS[event["reason"]])), event)
    stories = {key: story for key, story in stories.items() if story["evicted"] or story["refused"]}
    _name_taints(stories, told, nodes)
    _replace(stories, told)
    for story in stories.values():
        _state(story, told, pods)
    return sorted(stories.values(), key=lambda story: story["time"] or "", reverse=True)


def _key(event: RawObject) -> Key:
    return event["namespace"] or "", event["name"] or ""


def _new(event: RawObject, cause: str) -> Story:
    return {
        **{name: event[name] for name in ("namespace", "time")},
        "cause": cause,
        "pod": event["name"],
        "broken": event["message"],
        "refused": None,
        "evicted": False,
        "place": None,
        "replacement": None,
    }


def _refused(story: Story, event: RawObject) -> None:
    if found := _REFUSED.match(event["message"] or ""):
        story["broken"] = found["broken"]
        story["refused"] = {"why": found["why"], "times": event["count"], "time": event["time"]}


def _evicted(story: Story, event: RawObject) -> None:
    message = event["message"] or ""
    story["time"], story["evicted"] = event["time"], not message.startswith(_KEPT)
    if found := _EVICTED.match(message):
        story["broken"], story["place"] = found["broken"], found["place"] and f"{found['place']}."


def _name_taints(stories: dict[Key, Story], events: list[RawObject], nodes: Mapping[str, NodeRow]) -> None:
    """Name the taints that a pod was evicted for: those of its node, if it is known where it ran."""
    tainted = {key: story for key, story in stories.items() if story["cause"] == TAINT}
    for event in events if tainted else ():
        story = tainted.get(_key(event))
        if story is not None and (found := _ASSIGNED.match(event["message"] or "")):
            story["node"] = found["node"]
    for story in tainted.values():
        name = story.pop("node", None)
        row = nodes.get(name) if name else None
        taints = [taint for taint in row.taints if taint.endswith(":NoExecute")] if row else []
        where = f"node {name}" if name else "its node"
        story["broken"] = (
            f"{where} has the taint {', '.join(taints)}, which it does not tolerate"
            if taints
            else f"{where} had a NoExecute taint that it did not tolerate"
        )


def _replace(stories: dict[Key, Story], events: list[RawObject]) -> None:
    """Find replacements: the pods that a workload made after it lost some, in the same order."""
    made: dict[tuple[Key, str], list[tuple[str, str]]] = {}
    makers: dict[Key, tuple[Key, str]] = {}
    for event in events:
        if found := _CREATED.match(event["message"] or ""):
            maker = (_key(event), event["kind"] or "")
            made.setdefault(maker, []).append((event["time"] or "", found["pod"]))
            makers[event["namespace"] or "", found["pod"]] = maker
    for key, story in sorted(stories.items(), key=lambda item: item[1]["time"] or ""):
        if not story["evicted"] or key not in makers:
            continue
        maker = makers[key]
        same = maker[1] == "StatefulSet"  # which gives the new pod the name of the old one
        later = [
            each for each in made[maker] if each[0] >= (story["time"] or "") and (same == (each[1] == key[1]))
        ]
        if later:
            made[maker].remove(later[0])
            story["replacement"] = {"pod": later[0][1], "time": later[0][0]}


def _state(story: Story, events: list[RawObject], pods: Mapping[Key, PodRow]) -> None:
    """Where the replacement is by now, and what keeps it from having a node."""
    if (replacement := story["replacement"]) is None:
        return
    key = (story["namespace"], replacement["pod"])
    row = pods.get(key)
    said = [e for e in events if _key(e) == key and e["reason"] == "FailedScheduling"]
    replacement["node"] = row.node if row else None
    replacement["phase"] = row.phase if row else "gone"
    replacement["waits"] = said[-1]["message"] if said and row and not row.node else None
