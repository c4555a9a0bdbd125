"""What became of every eviction: rule broken → refusals → where a replacement was expected → where one is.

The events of a cluster are all that is read, so the story is the same wherever the evicting machine runs;
which pod replaces which is told by the workload that made both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from berth.kube.objects import Key, RawObject
from berth.web.board import PodRow

Story = dict[str, Any]

_EVICTIONS = ("NodeAffinityEviction", "PodAffinityEviction")
_REFUSALS = tuple(f"Failed{reason}" for reason in _EVICTIONS)
_EVICTED = re.compile(
    r"Evicted: (?P<broken>.*)\. (?P<landing>Its replacement would go to .*|No node could .*)\."
)
_REFUSED = re.compile(r"Could not evict: (?P<why>.*?) \((?P<broken>.*)\)$")
_CREATED = re.compile(r"(?:Created pod: |create Pod )(?P<pod>\S+)")


def eviction_stories(events: Iterable[RawObject], pods: Mapping[Key, PodRow]) -> list[Story]:
    """One story a pod that was, or could not be, evicted; the newest first."""
    told = sorted(events, key=lambda event: event["time"] or "")
    stories: dict[Key, Story] = {}
    for event in told:
        if event["reason"] in (*_EVICTIONS, *_REFUSALS):
            story = stories.setdefault(_key(event), _new(event))
            _refused(story, event) if event["reason"] in _REFUSALS else _evicted(story, event)
    _replace(stories, told)
    for story in stories.values():
        _state(story, told, pods)
    return sorted(stories.values(), key=lambda story: story["time"] or "", reverse=True)


def _key(event: RawObject) -> Key:
    return event["namespace"] or "", event["name"] or ""


def _new(event: RawObject) -> Story:
    return {
        **{name: event[name] for name in ("namespace", "time")},
        "pod": event["name"],
        "broken": event["message"],
        "refused": None,
        "evicted": False,
        "landing": None,
        "replacement": None,
    }


def _refused(story: Story, event: RawObject) -> None:
    if found := _REFUSED.match(event["message"] or ""):
        story["broken"] = found["broken"]
        story["refused"] = {"why": found["why"], "times": event["count"], "time": event["time"]}


def _evicted(story: Story, event: RawObject) -> None:
    story["time"], story["evicted"] = event["time"], True
    if found := _EVICTED.match(event["message"] or ""):
        story["broken"], story["landing"] = found["broken"], f"{found['landing']}."


def _replace(stories: dict[Key, Story], events: list[RawObject]) -> None:
    """The pods that a workload made after it lost one are its replacements, in their order."""
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
