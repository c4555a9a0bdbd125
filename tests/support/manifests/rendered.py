"""What `deploy/` puts into a cluster, rendered by kubectl and helm where they are."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.api.client import Client
from tests.support.manifests.builtin import BUILTIN
from tests.support.paths import ROOT

KUSTOMIZE = ROOT / "deploy" / "kustomize"
CHARTS = ROOT / "deploy" / "helm"
CHART, CONTROLLERS_CHART = CHARTS / "berth-scheduler", CHARTS / "berth-controllers"
BASE, ONLY = KUSTOMIZE / "base", KUSTOMIZE / "overlays" / "only-scheduler"
KUBECTL, HELM = shutil.which("kubectl"), shutil.which("helm")
NAMESPACE = "berth-system"
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not on PATH")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")

Object = dict[str, Any]
_CLUSTER_SCOPED = frozenset(
    {
        "Namespace",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


def kustomized(folder: Path = BASE) -> list[Object]:
    """The objects of a kustomization."""
    if KUBECTL is not None:
        return _output(KUBECTL, "kustomize", str(folder))
    return _read_kustomization(folder)


def charted(*options: str, release: str = "", chart: Path = CHART) -> list[Object]:
    """The objects of a chart, released under its own name or another; there has to be a helm."""
    name = release or chart.name
    return _output(HELM or "helm", "template", name, str(chart), "--namespace", NAMESPACE, *options)


def _output(*command: str) -> list[Object]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _read_kustomization(folder: Path) -> list[Object]:
    """As much of kustomize as the files here use."""
    about = load(folder / "kustomization.yaml")
    found: dict[tuple[str, str], Object] = {}
    for name in about["resources"]:
        path = folder / name
        read = (
            _read_kustomization(path)
            if path.is_dir()
            else list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        )
        found.update({(each["kind"], each["metadata"]["name"]): each for each in read})
    for each in found.values():
        if each["kind"] not in _CLUSTER_SCOPED:
            each["metadata"]["namespace"] = about["namespace"]
        for pairs in about.get("labels", ()):
            each["metadata"]["labels"] = {**each["metadata"].get("labels", {}), **pairs["pairs"]}
        if each["kind"] == "Deployment":
            for image in about.get("images", ()):
                each["spec"]["template"]["spec"]["containers"][0]["image"] = (
                    f"{image['name']}:{image['newTag']}"
                )
    for wanted in about.get("configMapGenerator", ()):
        data = {name: (folder / name).read_text(encoding="utf-8") for name in wanted["files"]}
        metadata = {"name": wanted["name"], "namespace": about["namespace"]}
        found["ConfigMap", wanted["name"]] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": data,
        }
    return list(found.values())


def one(objects: list[Object], kind: str) -> Object:
    """The only object of a kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod_of(objects: list[Object]) -> Any:
    """The template of the only Deployment's pods."""
    return one(objects, "Deployment")["spec"]["template"]


def granted(rules: list[Object]) -> set[tuple[str, str, str, tuple[str, ...]]]:
    """What rules allow, one by one: (group, resource, verb, names it is limited to)."""
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def assert_accepted(client: Client, objects: list[Object]) -> None:
    """An API server takes every object with strict field validation, so a misspelt field is an error."""
    by_kind = {(entry.api_version, entry.kind): entry for entry in BUILTIN}
    for each in objects:
        if each["kind"] == "Namespace":
            assert each["metadata"]["name"] == NAMESPACE
            continue
        resource = by_kind[each["apiVersion"], each["kind"]]
        path = resource.path(each["metadata"].get("namespace", ""))
        answer = client.post(path, each, dryRun="All", fieldValidation="Strict")
        assert answer.status == 201, (each["kind"], answer.message)


def assert_selected(objects: list[Object], *, but_not: list[Object]) -> None:
    """The selectors find the pods of these objects, and not those of others."""
    labels = pod_of(objects)["metadata"]["labels"]
    others = pod_of(but_not)["metadata"]["labels"]
    for selector in (
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert not selector.items() <= others.items()


def role(objects: list[Object], kind: str) -> list[Object]:
    """The rules of the scheduler's own role."""
    (found,) = [
        each
        for each in objects
        if each["kind"] == kind and not each["metadata"]["name"].endswith("metrics-reader")
    ]
    rules: list[Object] = found["rules"]
    return rules


def unknown_values(chart: Path) -> Iterator[str]:
    """What a chart's schema does not know of its values, or the other way round."""

    def names(values: Any, schema: Any, path: str = "") -> Iterator[str]:
        for name, value in values.items():
            known = schema["properties"].get(name)
            yield from () if known else (f"{path}{name}",)
            if known and "properties" in known:
                yield from names(value, known, f"{path}{name}.")

    values, schema = load(chart / "values.yaml"), load(chart / "values.schema.json")
    yield from names(values, schema)
    yield from set(schema["properties"]) - set(values) - {"global"}
