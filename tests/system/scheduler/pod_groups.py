"""Groups of pods, by either API that says who belongs to them."""

from __future__ import annotations

from tests.support.builders import ZONE, PodBuilder, make_pod
from tests.support.worlds.cluster import CUSTOM_RESOURCES, SCHEDULING, ClusterWorld

LABEL = "scheduling.x-k8s.io/pod-group"
_GROUP = "scheduling.x-k8s.io"


class Native:
    """PodGroup of scheduling.k8s.io, which pods name in their spec."""

    def prepare(self, world: ClusterWorld) -> None:
        del world

    def path(self, world: ClusterWorld, name: str = "") -> str:
        return world.path("podgroups", name, prefix=f"{SCHEDULING}/{world.backend.version.pod_group_api}")

    def group(self, world: ClusterWorld, name: str, minimum: int) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        world.make(self.path(world), {"metadata": {"name": name}, "spec": spec})

    def condition(self, world: ClusterWorld, name: str) -> tuple[str, str, str] | None:
        """What the group says about being placed, under the name that the server's version has for it."""
        found = world.get(self.path(world, name)).get("status", {}).get("conditions", ())
        by_type = {each["type"]: each for each in found}
        assert by_type.keys() <= {world.backend.version.pod_group_condition}
        stated = by_type.get(world.backend.version.pod_group_condition)
        return stated and (stated["status"], stated["reason"], stated["message"])

    def member(self, world: ClusterWorld, group: str, builder: PodBuilder) -> None:
        world.pod(builder, schedulingGroup={"podGroupName": group})


class Labelled:
    """PodGroup of scheduling.x-k8s.io, a custom resource, which pods name in a label."""

    def prepare(self, world: ClusterWorld) -> None:
        names = {
            "plural": "podgroups",
            "singular": "podgroup",
            "kind": "PodGroup",
            "listKind": "PodGroupList",
        }
        spec = {"type": "object", "properties": {"minMember": {"type": "integer"}}}
        schema = {"type": "object", "properties": {"spec": spec}}
        version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"podgroups.{_GROUP}"},
            "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
        }
        world.make(CUSTOM_RESOURCES, body)
        path = world.path("podgroups", prefix=f"/apis/{_GROUP}/v1alpha1")
        world.until(lambda: world.client.get(path).status == 200, "the custom resource is served")

    def group(self, world: ClusterWorld, name: str, minimum: int) -> None:
        path = world.path("podgroups", prefix=f"/apis/{_GROUP}/v1alpha1")
        body = {"apiVersion": f"{_GROUP}/v1alpha1", "kind": "PodGroup"}
        world.make(path, {**body, "metadata": {"name": name}, "spec": {"minMember": minimum}})

    def member(self, world: ClusterWorld, group: str, builder: PodBuilder) -> None:
        world.pod(builder.labels({LABEL: group}))


Kind = Native | Labelled


def members(
    world: ClusterWorld, kind: Kind, group: str, count: int, *, first: int = 0, together: bool = False
) -> list[str]:
    """Pods of one core each; together they want to be in one zone, and rather on fast nodes."""
    names = [f"{group}-{number}" for number in range(first, first + count)]
    for name in names:
        pod = make_pod(name).labels(app=group).requests(cpu="1")
        if together:
            pod = pod.affinity_to(app=group, topology=ZONE).prefers_nodes(weight=100, fast="yes")
        kind.member(world, group, pod)
    return names
