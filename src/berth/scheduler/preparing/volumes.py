"""Claims that wait for a pod's node: told the node, and awaited before the pod is bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from berth.engine.state.cluster import pod_name
from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import CLAIMS, VOLUMES, Resource
from berth.kube.objects import Key
from berth.kube.well_known import SELECTED_NODE
from berth.machines.contract import Action, Patch
from berth.machines.mirror import Mirror
from berth.scheduler.placing import Choice
from berth.scheduler.queued_pod import SchedulerPurpose

# Says that the volume may be let go again: its claim was not chosen by a person.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


@dataclass(slots=True)
class _Work:
    pod_class: PodClass
    name: str
    node: str
    provisioned: tuple[tuple[str, str], ...]
    told: set[tuple[str, str]] = field(default_factory=set)  # claims seen to know their node


class VolumeWork:
    """What has to be done about the volumes of pods that have a node but are not bound to it.

    Attributes:
        pods: Those that wait for their volumes.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.pods: dict[Key, _Work] = {}

    def begin(self, choice: Choice) -> list[Action] | None:
        """What to ask for before the pod can be bound; None if nothing."""
        decisions, record = choice.volumes, choice.record
        if decisions is None:
            return None
        name = pod_name(record.pod)
        if decisions.empty and self._mirror.cluster.volumes.all_bound(choice.pod_class):
            self._mirror.release_volumes(name)
            return None
        self._mirror.promise_volumes(name, decisions, choice.node)
        self.pods[record.key] = _Work(choice.pod_class, name, choice.node, tuple(decisions.provision))
        actions: list[Action] = [
            Patch(
                resource=CLAIMS,
                key=record.key,
                namespace=namespace,
                name=claim,
                body={
                    "metadata": {
                        **self._guard(CLAIMS, (namespace, claim)),
                        "annotations": {SELECTED_NODE: choice.node},
                    }
                },
                purpose=SchedulerPurpose.VOLUMES,
                attempt=record.attempt,
            )
            for namespace, claim in decisions.provision
        ]
        actions += [
            Patch(
                resource=VOLUMES,
                key=record.key,
                name=volume,
                body={
                    "metadata": {
                        **self._guard(VOLUMES, ("", volume)),
                        "annotations": {BOUND_BY_CONTROLLER: "yes"},
                    },
                    "spec": {"claimRef": self._reference(namespace, claim)},
                },
                purpose=SchedulerPurpose.VOLUMES,
                attempt=record.attempt,
            )
            for volume, namespace, claim in decisions.bind
        ]
        return actions

    def _guard(self, resource: Resource, key: Key) -> dict[str, str | None]:
        """Only as it was when it was chosen: it may be somebody else's by now."""
        seen = self._mirror.storage.get((resource, key))
        return {"uid": seen.uid, "resourceVersion": seen.resource_version} if seen else {}

    def _reference(self, namespace: str, claim: str) -> dict[str, str | None]:
        found = self._mirror.cluster.volumes.claim(namespace, claim)
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim,
            "uid": found.uid if found else None,
        }

    def forget(self, key: Key) -> None:
        work = self.pods.pop(key, None)
        if work is not None:
            self._mirror.release_volumes(work.name)
            self._mirror.volumes_changed()

    def ready(self) -> list[Key]:
        """Pods whose claims are all bound by now."""
        index = self._mirror.cluster.volumes
        return [key for key, work in self.pods.items() if index.all_bound(work.pod_class)]

    def failed(self) -> Iterator[tuple[Key, str]]:
        """Pods that have to be placed anew.

        Whoever provisions a volume takes the node's name off a claim again if it cannot be done there.
        """
        for key, work in list(self.pods.items()):
            for claim in work.provisioned:
                why = self._refused(work, claim)
                if why is not None:
                    yield key, why
                    break

    def _refused(self, work: _Work, name: tuple[str, str]) -> str | None:
        claim = self._mirror.cluster.volumes.claim(*name)
        if claim is None:
            return f'persistentvolumeclaim "{name[1]}" not found'
        if claim.selected_node == work.node:
            work.told.add(name)
        elif name in work.told:
            return f'the volume of persistentvolumeclaim "{name[1]}" cannot be provisioned for {work.node}'
        return None
