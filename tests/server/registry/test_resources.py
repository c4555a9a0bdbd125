"""Which resources there are and how they are addressed."""

from __future__ import annotations

import pytest

from berth.kube.schema import SchemaRegistry
from berth.kube.versions import VERSIONS
from berth.server.registry.kinds import strategies_of
from berth.server.registry.strategy import ServedResource, from_crd
from tests.support.manifests.builtin import BUILTIN


def resource(plural: str, group: str = "") -> ServedResource:
    return next(each for each in BUILTIN if (each.plural, each.group) == (plural, group))


@pytest.mark.parametrize(
    ("plural", "group", "path"),
    [
        ("pods", "", "/api/v1/namespaces/a/pods/b/eviction"),
        ("nodes", "", "/api/v1/nodes/b/eviction"),
        ("deployments", "apps", "/apis/apps/v1/namespaces/a/deployments/b/eviction"),
    ],
)
def test_path_names_scope_and_subresource(plural: str, group: str, path: str) -> None:
    """Cluster-scoped resources have no namespace in their path."""
    assert path == resource(plural, group).path("a", "b", "eviction")


def test_every_builtin_has_a_schema() -> None:
    """No kind is served whose fields are unknown."""
    schemas = SchemaRegistry()
    assert [each.gvk for each in BUILTIN if schemas.for_kind(*each.gvk) is None] == []


def test_names_are_unambiguous() -> None:
    """Short names and plurals lead to one resource in every version, events of two groups apart."""
    for version in VERSIONS.values():
        served = [strategy.resource for strategy in strategies_of(version)]
        names = [
            name
            for each in served
            if each.group != "events.k8s.io"
            for name in (each.plural, *each.short_names)
        ]
        assert len(set(names)) == len(names)


def test_group_resource_and_api_version() -> None:
    """Messages name a resource with its group, the core group's without."""
    deployments = resource("deployments", "apps")
    assert (deployments.name, deployments.api_version) == ("deployments.apps", "apps/v1")
    assert (resource("pods").name, resource("pods").api_version) == ("pods", "v1")


def test_from_crd_takes_served_versions_only() -> None:
    """A version that is not served is no resource; odd input is nothing at all."""
    crd: dict[str, object] = {
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": True, "subresources": {"status": {}, "other": {}}},
                {"name": "v2", "served": False},
            ],
        }
    }
    (found,) = from_crd(crd)
    assert ("widget", False, ("wd",), frozenset({"status"})) == (
        found.singular,
        found.namespaced,
        found.short_names,
        found.subresources,
    )
    assert from_crd({"spec": None}) == ()
