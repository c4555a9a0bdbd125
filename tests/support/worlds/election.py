"""Leader election among processes: its flags, and who holds the lease."""

from __future__ import annotations

from tests.support.worlds.cluster import ClusterWorld

LEASES = "/apis/coordination.k8s.io/v1"
QUICK = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=0.5s",
)


def election(world: ClusterWorld) -> tuple[str, ...]:
    name = f"lease-{world.namespace}"
    return (
        *QUICK,
        f"--leader-elect-resource-name={name}",
        f"--leader-elect-resource-namespace={world.namespace}",
    )


def holder(world: ClusterWorld) -> str | None:
    answer = world.client.get(world.path("leases", f"lease-{world.namespace}", prefix=LEASES))
    return answer.json["spec"].get("holderIdentity") if answer.status == 200 else None
