"""A control plane, and what tests ask it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.api.client import Client, Json


@dataclass(frozen=True)
class Plane:
    """A control plane with everything that belongs to it, and a namespace of the test's own."""

    client: Client
    name: str = ""

    @property
    def space(self) -> str:
        return f"/api/v1/namespaces/{self.name}"

    def under(self, group_version: str) -> str:
        """The namespace in another API group."""
        return f"/apis/{group_version}/namespaces/{self.name}"


def items(plane: Plane, plural: str) -> list[Json]:
    found: list[Json] = plane.client.get(f"{plane.space}/{plural}").json["items"]
    return found
