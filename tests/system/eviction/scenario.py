"""What the scenarios are made of, whatever they run on."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from tests.support.api.client import Json
from tests.support.builders import NodeBuilder, PodBuilder, make_pod, where
from tests.support.worlds.cluster import CORE, ClusterWorld, manifest

NO_MATCH = "didn't match Pod's node affinity/selector"
POLICY = "/apis/policy/v1"

Form = Callable[[PodBuilder], Json]
MakeNode = Callable[..., NodeBuilder]


def native(builder: PodBuilder) -> Json:
    """The rules are where they belong."""
    body = manifest(builder.build())
    return {**body, "metadata": {"name": body["metadata"]["name"], "labels": body["metadata"].get("labels")}}


def annotated(builder: PodBuilder) -> Json:
    """The rules are in the annotation, as on a server that does not know the field."""
    body = native(builder)
    spec = dict(body["spec"])
    annotations = {AFFINITY_ANNOTATION: json.dumps(spec.pop("affinity"))}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}, "spec": spec}


def tenant(name: str, **labels: str) -> PodBuilder:
    """A pod that runs only where the node has these labels, as long as it runs."""
    required = [where(key, "In", value) for key, value in labels.items()]
    return make_pod(name).labels(app=name).node_affinity(*required, during_execution=True)


def unlabel(world: ClusterWorld, node: str, key: str) -> None:
    world.patch(f"{CORE}/nodes/{node}", {"metadata": {"labels": {key: None}}})


def uid_of(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def is_gone(world: ClusterWorld, pod: Json) -> bool:
    """Whether this very pod is no longer there."""
    answer = world.client.get(world.path("pods", pod["metadata"]["name"]))
    return answer.status == 404 or uid_of(answer.json) != uid_of(pod)


def evicted(world: ClusterWorld, pod: Json) -> Json:
    """Wait until a pod is gone; the event that says why."""
    name = pod["metadata"]["name"]
    world.until(lambda: is_gone(world, pod), f"{name} is evicted")
    (event, *_) = world.events(name, "NodeAffinityEviction")
    return event


def is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def running(world: ClusterWorld, name: str) -> Json:
    """A pod, once it is ready."""

    def found() -> Json | None:
        pod = world.get_pod(name)
        return pod if is_ready(pod) else None

    return world.until(found, f"{name} is ready")


def of_app(world: ClusterWorld, app: str) -> list[Json]:
    return [pod for pod in world.all_pods() if pod["metadata"].get("labels", {}).get("app") == app]


def budget(world: ClusterWorld, app: str, **spec: object) -> None:
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    world.make(world.path("poddisruptionbudgets", prefix=POLICY), {"metadata": {"name": app}, "spec": body})


def nine_steps(world: ClusterWorld, form: Form, node: MakeNode, *, starts: bool = False) -> None:
    """The rule holds when the pod is placed and afterwards; its successor waits for a node that matches.

    Where there are kubelets the pod `starts`: a node that does not match by then would reject it instead.
    """
    world.nodes(node("old", team="b"))
    template = form(tenant("web", team="b"))
    pod = world.add_pod(template)
    assert world.bound("web") == "old"
    if starts:
        running(world, "web")

    unlabel(world, "old", "team")
    event = evicted(world, pod)
    assert event["type"] == "Normal"
    assert "old" in event["message"]
    assert "team" in event["message"]

    world.add_pod(template)
    world.refused("web", NO_MATCH)
    world.nodes(node("new", team="b"))
    assert world.bound("web") == "new"


def version(world: ClusterWorld) -> str:
    return str(world.get(world.path("pods"))["metadata"]["resourceVersion"])


def numbers_ready(
    world: ClusterWorld, apps: Collection[str], since: str, at_first: Collection[str] = ()
) -> list[int]:
    """How many pods of apps were ready at first, and after every single change since a version."""
    ready, history = set(at_first), [len(at_first)]
    with world.client.watching(world.path("pods"), resourceVersion=since, timeoutSeconds=1) as watch:
        changes = watch.rest()
    for change in changes:
        pod = change["object"]
        if pod.get("metadata", {}).get("labels", {}).get("app") in apps:
            ready.discard(uid_of(pod))
            if change["type"] != "DELETED" and is_ready(pod):
                ready.add(uid_of(pod))
            history.append(len(ready))
    return history
