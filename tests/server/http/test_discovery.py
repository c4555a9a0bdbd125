"""Discovery in both forms."""

from __future__ import annotations

import json

import msgspec
import pytest

from berth.kube.versions import NEWEST
from berth.server.http import documents
from berth.server.registry.strategy import served
from tests.support.manifests.builtin import BUILTIN

WIDGETS = served("example.com/v1beta1", "Widget")
GROUPS = documents.groups_of(BUILTIN)


def test_groups_list_every_version_once() -> None:
    """The core group is not among the groups; the preferred version comes first."""
    newer = msgspec.structs.replace(WIDGETS, version="v1")
    groups = documents.groups_of([*BUILTIN, WIDGETS, newer])
    listed = documents.legacy(groups, "/apis")
    assert listed is not None
    names = [group["name"] for group in listed["groups"]]
    assert len(names) == len(set(names))
    assert "" not in names
    group = documents.legacy(groups, "/apis/example.com")
    assert group is not None
    assert group["preferredVersion"]["version"] == "v1"
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]


def test_groups_come_in_upstreams_order() -> None:
    """The order is the one in which `kubectl get all` lists kinds: autoscalers come before jobs."""
    listed = documents.legacy(GROUPS, "/apis")
    assert listed is not None
    names = [group["name"] for group in listed["groups"]]
    assert names[:6] == [
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
    ]


def test_resource_list_has_subresources_with_their_kinds() -> None:
    """Discovery lists subresources under the kinds they are read and written as."""
    document = documents.legacy(GROUPS, "/apis/apps/v1")
    assert document is not None
    entries = {each["name"]: each for each in document["resources"]}
    assert document["groupVersion"] == "apps/v1"
    assert entries["deployments"]["shortNames"] == ["deploy"]
    assert tuple(entries["deployments/scale"][key] for key in ("group", "version", "kind")) == (
        "autoscaling",
        "v1",
        "Scale",
    )
    assert entries["deployments/status"]["kind"] == "Deployment"


def test_unknown_groups_are_none() -> None:
    """There is no discovery document for an unknown group or version."""
    for path in ("/apis/nope", "/apis//", "/apis/apps/v9", "/api/v9", "/nope"):
        assert documents.legacy(GROUPS, path) is None


@pytest.mark.parametrize("version", documents.AGGREGATED_VERSIONS)
def test_aggregated_says_what_the_legacy_form_says(version: str) -> None:
    """Both forms name the same resources with the same verbs."""
    for core in (True, False):
        document = documents.aggregated(GROUPS, core=core, version=version)
        assert f"apidiscovery.k8s.io/{version}" == document["apiVersion"]
        for group in document["items"]:
            for held in group["versions"]:
                name = group["metadata"].get("name")
                root = f"/apis/{name}" if name else "/api"
                legacy = documents.legacy(GROUPS, f"{root}/{held['version']}")
                assert legacy is not None
                expected = {each["name"]: each["verbs"] for each in legacy["resources"]}
                found = {}
                for each in held["resources"]:
                    found[each["resource"]] = each["verbs"]
                    for part in each.get("subresources", ()):
                        found[f"{each['resource']}/{part['subresource']}"] = part["verbs"]
                assert expected == found


def test_versions_are_ranked_as_kubernetes_ranks_them() -> None:
    """Versions are sorted GA, beta, alpha, then others by name."""
    wanted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert wanted == documents.by_priority(sorted(wanted))


def test_documents_are_json() -> None:
    """/version and /api can be written as JSON and say what clients look for."""
    found = [documents.version_info(NEWEST), documents.legacy(GROUPS, "/api")]
    version, versions = json.loads(json.dumps(found))
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")
    assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])
    assert versions["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
