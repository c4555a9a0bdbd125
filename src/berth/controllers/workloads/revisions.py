"""ControllerRevisions: the templates a StatefulSet or DaemonSet has had, for `kubectl rollout undo`.

Upstream: pkg/controller/history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.kube.api_resources import REVISIONS, Resource
from berth.kube.objects import ControllerRevision, LivePod, LiveWorkload, RawObject, key_of
from berth.kube.well_known import REVISION_HASH
from berth.kube.workloads.pod_templates import child_name, plain, template_hash
from berth.machines.cache import Cache
from berth.machines.contract import Action, Patch
from berth.machines.requests import child_of, create, delete

_CHANGE_CAUSE = "kubernetes.io/change-cause"


@dataclass(frozen=True, slots=True)
class History:
    """The revisions of one workload, oldest first; `current` is the one of its template, if it is there."""

    all: list[ControllerRevision]
    current: ControllerRevision | None
    hash: str  # of the workload's template
    name: str  # of the revision for it

    def template(self, revision_hash: str) -> RawObject | None:
        """The template a hash stands for."""
        for revision in self.all:
            if hash_of(revision) == revision_hash:
                return _template(revision)
        return None


def hash_of(item: ControllerRevision | LivePod) -> str:
    """The hash of the template that a revision holds or a pod was made from."""
    return (item.metadata.labels or {}).get(REVISION_HASH, "")


def history(cache: Cache, workload: LiveWorkload) -> History:
    owned = sorted(
        cache.owned(REVISIONS, workload.metadata.uid, ControllerRevision),
        key=lambda revision: revision.revision or 0,
    )
    template = plain(workload.spec.template, REVISION_HASH)
    current = next((r for r in reversed(owned) if _template(r) == template), None)
    tag = hash_of(current) if current else template_hash(template, workload.status.collision_count)
    return History(owned, current, tag, child_name(workload.metadata.name or "", tag))


def _template(revision: ControllerRevision) -> RawObject:
    """The template in a revision, without the mark that tells a patch to replace the old one whole."""
    template: RawObject = (revision.data or {}).get("spec", {}).get("template") or {}
    return plain({name: value for name, value in template.items() if name != "$patch"}, REVISION_HASH)


def keep_up(
    resource: Resource, workload: LiveWorkload, found: History, used: Iterable[str]
) -> Iterator[Action]:
    """Create the revision of the template, make it the newest, and drop what the limit does not keep."""
    key = key_of(workload.metadata)
    newest = max((revision.revision or 0 for revision in found.all), default=0)
    if found.current is None:
        yield _create(resource, workload, found, newest + 1)
        return
    if (found.current.revision or 0) < newest:
        yield Patch(
            resource=REVISIONS,
            key=key,
            at=(key[0], found.current.metadata.name or ""),
            body={"revision": newest + 1},
            why="the template is back at an older revision",
        )
    limit = workload.spec.revision_history_limit
    kept = {*used, found.hash}
    idle = [revision for revision in found.all if hash_of(revision) not in kept]
    for revision in idle[: max(len(idle) - (10 if limit is None else limit), 0)]:
        yield delete(REVISIONS, revision, "beyond the revision history limit", key=key)


def _create(resource: Resource, workload: LiveWorkload, found: History, number: int) -> Action:
    template = {**plain(workload.spec.template, REVISION_HASH), "$patch": "replace"}
    labels = ((workload.spec.template or {}).get("metadata") or {}).get("labels") or {}
    given = workload.metadata.annotations or {}
    noted = {name: given[name] for name in (_CHANGE_CAUSE,) if name in given}
    marked = {**labels, REVISION_HASH: found.hash}
    content = {"data": {"spec": {"template": template}}, "revision": number}
    body = child_of(workload, resource, REVISIONS, found.name, content, labels=marked, annotations=noted)
    return create(REVISIONS, key_of(workload.metadata), body, "no revision has the template")
