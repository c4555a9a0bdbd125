"""StatefulSets: numbered pods, created, scaled and updated in order.

Upstream: pkg/controller/statefulset.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from berth.controllers.workloads.controller import WorkloadController
from berth.controllers.workloads.pods import is_available, next_available, pod_from, wanted
from berth.controllers.workloads.revisions import History, hash_of, history, keep_up
from berth.kube.amounts.integers import integer
from berth.kube.api_resources import CLAIMS, PODS, REVISIONS, STATEFUL_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, RawObject, key_of
from berth.kube.pods import is_finished, is_ready, is_terminating, phase
from berth.kube.well_known import POD_INDEX, POD_NAME, REVISION_HASH, RUNNING
from berth.machines.contract import Action, Create, Outcome
from berth.machines.recorder import NORMAL, WARNING
from berth.machines.requests import create, is_news, status_patch

# --- the pods -------------------------------------------------------------------------------------
# Upstream: pkg/controller/statefulset/stateful_set_utils.go.


def ordinals(stateful_set: LiveWorkload) -> range:
    start = (stateful_set.spec.ordinals.start if stateful_set.spec.ordinals else None) or 0
    return range(start, start + wanted(stateful_set))


def pod_name(stateful_set: LiveWorkload, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def ordinal_of(stateful_set: LiveWorkload, pod: LivePod) -> int | None:
    """The pod's number, None if its name is not one of the set's."""
    base, _, number = (pod.metadata.name or "").rpartition("-")
    return integer(number, 32, least=0) if base == stateful_set.metadata.name else None


def stateful_pod(
    stateful_set: LiveWorkload, ordinal: int, revision: str, template: RawObject | None
) -> RawObject:
    name = pod_name(stateful_set, ordinal)
    labels = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: revision}
    pod = pod_from(stateful_set, STATEFUL_SETS, template=template, name=name, labels=labels)
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    claims = {
        claim["metadata"]["name"]: claim_name(stateful_set, claim, ordinal)
        for claim in stateful_set.spec.volume_claim_templates or ()
    }
    if claims:
        kept = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claims]
        made = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in claims.items()
        ]
        spec["volumes"] = [*kept, *made]
    return pod


def claim_name(stateful_set: LiveWorkload, claim: RawObject, ordinal: int) -> str:
    return f"{claim['metadata']['name']}-{stateful_set.metadata.name}-{ordinal}"


def claims_of(stateful_set: LiveWorkload, ordinal: int) -> Iterator[Create]:
    """The claims the pod with this number needs."""
    key = key_of(stateful_set.metadata)
    selector = stateful_set.spec.selector
    selected = (selector.match_labels if selector else None) or {}
    for template in stateful_set.spec.volume_claim_templates or ():
        body = copy.deepcopy(template)
        metadata = body.setdefault("metadata", {})
        metadata["name"] = claim_name(stateful_set, template, ordinal)
        metadata["namespace"] = key[0]
        metadata["labels"] = {**(metadata.get("labels") or {}), **selected}
        body.pop("status", None)
        body |= {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind}
        yield create(CLAIMS, key, body, f"pod {pod_name(stateful_set, ordinal)} claims it")


# --- the controller -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Set:
    """A set while it is looked at: pods by number, and the revisions it is between."""

    item: LiveWorkload
    pods: dict[int, LivePod]
    found: History
    current: str

    @property
    def key(self) -> Key:
        return key_of(self.item.metadata)

    @property
    def update(self) -> str:
        return self.found.name

    @property
    def ordered(self) -> bool:
        return self.item.spec.pod_management_policy != "Parallel"

    @property
    def condemned(self) -> list[LivePod]:
        """Pods beyond the wanted number, highest first."""
        numbers = ordinals(self.item)
        return [self.pods[n] for n in sorted(self.pods, reverse=True) if n not in numbers]

    @property
    def partition(self) -> int:
        strategy = self.item.spec.update_strategy
        rolling = strategy.rolling_update if strategy else None
        return (rolling.partition if rolling else None) or 0

    @property
    def rolls(self) -> bool:
        strategy = self.item.spec.update_strategy
        return strategy is None or strategy.type != "OnDelete"

    def healthy(self, pod: LivePod, now: float) -> bool:
        return phase(pod) == RUNNING and is_available(pod, self.item, now) and not is_terminating(pod)


class StatefulSetController(WorkloadController):
    name = "statefulset-controller"
    watches = (STATEFUL_SETS, PODS, REVISIONS, CLAIMS)
    owner = STATEFUL_SETS

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        item = self.cache.get(STATEFUL_SETS, key, LiveWorkload)
        if item is None or self.waits(item.metadata, now):
            return
        found = history(self.cache, item)
        pods = {n: pod for pod in self.owned(item, LivePod) if (n := ordinal_of(item, pod)) is not None}
        self.count_failures(item.metadata, list(pods.values()), now)
        current = item.status.current_revision or found.name
        this = _Set(item, pods, found, current)
        if not item.metadata.deletion_timestamp:
            hashes = {name.rpartition("-")[2] for name in (current, *map(hash_of, pods.values()))}
            yield from keep_up(STATEFUL_SETS, item, found, hashes)
            claims = self.claims(item)
            yield from claims
            if not claims and found.current is not None:
                scaled = list(self._scale(this, now))
                yield from scaled
                if not scaled and this.rolls:
                    yield from self._roll(this, now)
        yield from self._status(this, now)

    # --- one step at a time -------------------------------------------------------------------------

    def _scale(self, this: _Set, now: float) -> Iterator[Action]:
        """Create what is missing in order, then remove what is too much in reverse order."""
        settled = True
        for number in ordinals(this.item):
            pod = this.pods.get(number)
            if pod is None:
                yield from self._create(this, number, now)
            elif is_finished(pod) and not is_terminating(pod):
                # It is made again; if pods keep failing, later each time.
                if not self.queue.put_off(this.key, self.held_back(this.item.metadata, now), now):
                    yield self._delete(this, pod, "it has finished", now)
            elif this.healthy(pod, now):
                continue
            settled = False
            if this.ordered:
                return
        for pod in this.condemned:
            if this.ordered and not settled:
                return
            if not is_terminating(pod):
                yield self._delete(this, pod, f"{wanted(this.item)} pods wanted", now)
            if this.ordered:
                return

    def _roll(self, this: _Set, now: float) -> Iterator[Action]:
        """Replace pods of older revisions, the highest number first, down to the partition."""
        if this.condemned:
            return
        numbers = [n for n in ordinals(this.item) if n >= ordinals(this.item).start + this.partition]
        for number in reversed(numbers):
            pod = this.pods.get(number)
            if pod is None:
                return
            if hash_of(pod) != this.update and not is_terminating(pod):
                yield self._delete(this, pod, "it has an older revision", now)
                return
            if not this.healthy(pod, now):
                return

    def _create(self, this: _Set, number: int, now: float) -> Iterator[Action]:
        item = this.item
        before = ordinals(item).start + this.partition
        keeps = this.rolls and number < before and this.current != this.update
        revision = this.current if keeps else this.update
        template = this.found.template(revision.rpartition("-")[2])
        missing = [
            action
            for action in claims_of(item, number)
            if self.cache.look(CLAIMS, (this.key[0], action.body["metadata"]["name"])) is None
        ]
        if missing:
            yield from missing
            self.queue.add(this.key)
            return
        if not self.creations_allowed(item.metadata, 1, now):
            return
        body = stateful_pod(item, number, revision, template)
        yield self.create_pod(item, body, f"number {number} is missing", now)

    def _delete(self, this: _Set, pod: LivePod, cause: str, now: float) -> Action:
        message = f"delete Pod {pod.metadata.name} in StatefulSet {this.key[1]} successful"
        self.recorder.record(now, STATEFUL_SETS, this.item, NORMAL, "SuccessfulDelete", message)
        return self.delete_pod(this.item, pod, cause, now)

    def creation_told(self, item: LiveWorkload, name: str) -> str:
        return f"create Pod {name} in StatefulSet {item.metadata.name} successful"

    def creation_failed(self, item: LiveWorkload, action: Create, outcome: Outcome) -> None:
        name = action.body["metadata"]["name"]
        message = f"create Pod {name} in StatefulSet {action.key[1]} failed error: {outcome.message}"
        self.recorder.record(outcome.at, STATEFUL_SETS, item, WARNING, "FailedCreate", message)

    # --- status -------------------------------------------------------------------------------------

    def _status(self, this: _Set, now: float) -> Iterator[Action]:
        item, pods = this.item, list(this.pods.values())
        living = [pod for pod in pods if not is_terminating(pod)]
        status = {
            "observedGeneration": item.metadata.generation or 0,
            "replicas": len(pods),
            "readyReplicas": sum(is_ready(pod) for pod in living),
            "availableReplicas": sum(is_available(pod, item, now) for pod in living),
            "currentReplicas": sum(hash_of(pod) == this.current for pod in living),
            "updatedReplicas": sum(hash_of(pod) == this.update for pod in living),
            "currentRevision": this.current,
            "updateRevision": this.update,
            "collisionCount": item.status.collision_count or 0,
        }
        size = wanted(item)
        complete = all(status[name] == size for name in ("updatedReplicas", "readyReplicas", "replicas"))
        if this.rolls and complete:
            status["currentReplicas"], status["currentRevision"] = status["updatedReplicas"], this.update
        self.queue.put_off(this.key, next_available(living, item, now), now)
        if is_news(item, status):
            yield status_patch(STATEFUL_SETS, item, dict(status))
