"""The user stories of workload affinity land where their comments say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli.command import berth
from tests.support.cli.example_placements import EXAMPLES
from tests.support.fleet.definitions import stock

CLUSTERS = EXAMPLES / "fleet" / "clusters.yaml"
EU, US = {"eu-1", "eu-2"}, {"us-1", "us-2"}


def clusters_of(file: str, *flags: str) -> dict[str, set[str]]:
    """Workload -> the clusters it is on, as `berth fleet simulate` says."""
    outcome = berth(
        "fleet", "simulate", "-f", CLUSTERS, "-f", EXAMPLES / "fleet" / file, "-o", "json", *flags
    )
    assert outcome.err == ""
    return {
        entry["resource"]["name"]: {target["name"] for target in entry["clusters"]}
        for entry in json.loads(outcome.out)["workloads"]
    }


def test_duplicate_pipelines() -> None:
    """Story 1: the two of a group never share a cluster; another group does not matter to them."""
    found = clusters_of("duplicate-pipelines.yaml")
    assert all(len(clusters) == 1 for clusters in found.values())
    assert found["payments-a"].isdisjoint(found["payments-b"])
    assert found["audit"] <= found["payments-a"] | found["payments-b"]


def test_training_shards() -> None:
    """Story 2: the shards of a set are on one cluster, each set where there is room for it."""
    found = clusters_of("training-shards.yaml")
    assert found["vision-0"] == found["vision-1"] == found["vision-2"]
    assert found["speech-0"] == found["speech-1"]
    assert len(found["vision-0"]) == len(found["speech-0"]) == 1


@pytest.mark.parametrize("file", ["co-located.yaml", "co-located-annotation.yaml"])
def test_co_located_applications(file: str) -> None:
    """Story 3: readers follow their pipeline to its region; one without a pipeline fits nowhere."""
    found = clusters_of(file)
    assert found["orders"] < US
    assert found["consumer"] == found["cache"] == found["orders"]
    assert found["report"] == set()


@pytest.mark.parametrize("file", ["ha-flink-deployment.yaml", "ha-flink-deployment-annotation.yaml"])
def test_the_flink_example(file: str) -> None:
    """Production jobs of one group are apart; the trial keeps off them, too, having the same policy."""
    found = clusters_of(file)
    assert found["indexer-a"].isdisjoint(found["indexer-b"])
    assert found["aggregator-a"].isdisjoint(found["aggregator-b"])
    assert found["indexer-trial"].isdisjoint(found["indexer-a"] | found["indexer-b"])
    assert all(len(clusters) == 1 for clusters in found.values())


@pytest.mark.parametrize("file", ["affinity-enabled.yaml", "affinity-enabled-annotation.yaml"])
def test_affinity_enabled(file: str) -> None:
    """The scheduler's flag says by which label; without it nothing is placed."""
    found = clusters_of(file, "--anti-affinity-label-keys", "karmada.io/group")
    assert len(found["ledger-a"] | found["ledger-b"]) == 2
    assert clusters_of(file) == {"ledger-a": set(), "ledger-b": set()}


GROUP = '"karmada.io/group"'


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--affinity-label-keys", "training.example.com/set"),
        ("--anti-affinity-label-keys", GROUP),
        ("--affinity-label-keys", "training.example.com/set", "--anti-affinity-label-keys", GROUP),
    ],
)
@pytest.mark.parametrize(
    "file",
    ["duplicate-pipelines.yaml", "training-shards.yaml", "co-located.yaml", "ha-flink-deployment.yaml"],
)
def test_label_keys_silence_no_rule(file: str, flags: tuple[str, ...]) -> None:
    """The keys configured for one kind of rule change nothing about the other, nor what a term says."""
    assert clusters_of(file, *flags) == clusters_of(file)


def test_rules_in_an_annotation() -> None:
    """Rules in an annotation put one gateway into each region."""
    found = clusters_of("annotation.yaml")
    assert {clusters < EU for clusters in found.values()} == {True, False}


def _unknown(item: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    """Fields that strict decoding by a schema would refuse."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema:
        return
    if isinstance(item, list):
        for each in item:
            yield from _unknown(each, schema.get("items", {}), path)
    elif isinstance(item, dict):
        known = schema.get("properties", {})
        for name, value in item.items():
            if name in known:
                yield from _unknown(value, known[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"


def _refused(file: str) -> set[str]:
    """What a stock Karmada refuses in the policies of an example."""
    (schema,) = [
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for definition in stock()
        if definition["spec"]["names"]["kind"] == "PropagationPolicy"
    ]
    text = (EXAMPLES / "fleet" / file).read_text(encoding="utf-8")
    policies = [each for each in yaml.safe_load_all(text) if each["kind"] == "PropagationPolicy"]
    assert policies
    return {place for each in policies for place in _unknown(each["spec"], schema, "spec")}


def test_a_stock_karmada_takes_the_annotation_form() -> None:
    """Strict decoding refuses only the proposal's terms, and each file with some has another beside it."""
    files = {path.name for path in Path(EXAMPLES / "fleet").iterdir()} - {"clusters.yaml", "flink-crd.yaml"}
    refused = {file: places for file in files if (places := _refused(file))}
    where = "spec.placement.workloadA"
    assert all(place.startswith(where) for places in refused.values() for place in places)
    assert refused.keys() == {"co-located.yaml", "ha-flink-deployment.yaml", "affinity-enabled.yaml"}
    assert files >= {file.replace(".yaml", "-annotation.yaml") for file in refused}


def test_nothing_to_place() -> None:
    """The clusters and the definition of Flink's kind are there for the others."""
    assert clusters_of("flink-crd.yaml") == {}


def test_every_example_is_asserted() -> None:
    """Every example of a fleet is used by a test here."""
    files = {path.name for path in Path(EXAMPLES / "fleet").iterdir()}
    text = Path(__file__).read_text(encoding="utf-8")
    assert {file for file in files if f'"{file}"' not in text} == set()
