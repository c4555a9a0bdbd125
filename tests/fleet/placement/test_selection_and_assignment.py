"""From the feasible clusters on, every recorded decision of Karmada is reproduced."""

import gzip
import json
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest

from berth.fleet.placement.assignment import assign
from berth.fleet.selection.select import select
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import PlacementError
from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import Binding, MemberCluster
from berth.kube.text.decoding import convert
from tests.support.paths import DATA

_RECORDED = DATA / "conformance-fleet" / "upstream.jsonl.gz"


@cache
def _cases() -> dict[str, list[Any]]:
    by_category = defaultdict(list)
    with gzip.open(_RECORDED, "rt") as lines:
        for line in lines:
            record = json.loads(line)
            if record["expect"]["feasible"]:
                by_category[record["case"]["category"]].append(record)
    return by_category


def decide(case: Any, expect: Any) -> dict[str, Any]:
    """What is selected and assigned, in the form of the records."""
    clusters = Clusters(convert(c, MemberCluster) for c in case["clusters"])
    binding = convert(case["binding"], Binding)
    settings = case.get("options", {})
    options = FleetOptions(
        compat=True, empty_workload_propagation=settings.get("enableEmptyWorkloadPropagation", False)
    )
    current = {target.name for target in binding.spec.clusters or ()}
    feasible = np.zeros(clusters.size, dtype=np.bool_)
    score = np.zeros(clusters.size, dtype=np.int64)
    for name in expect["feasible"]:
        feasible[clusters.slot_of[name]] = True
        score[clusters.slot_of[name]] = 100 if name in current else 0
    term = expect.get("affinityName") or ""
    found: dict[str, Any] = {"selected": None, "result": None, "error": None}
    try:
        selection = select(clusters, feasible, score, binding, term, options)
        found["selected"] = sorted(selection.names)
        targets = assign(selection, binding, term, options)
        found["result"] = {target.name: target.replicas for target in targets}
        assert len(found["result"]) == len(targets)
    except PlacementError as error:
        found["error"] = {"class": error.reason, "message": error.message}
    return found


@pytest.mark.parametrize("category", sorted(_cases()))
def test_recorded_decisions(category: str) -> None:
    """Every recorded decision of Karmada is reproduced from its feasible clusters on."""
    for record in _cases()[category]:
        found = decide(record["case"], record["expect"])
        expected = {key: record["expect"][key] for key in found}
        assert expected == found, record["case"]["id"]


def test_no_record_is_left_out() -> None:
    """More than 900 recorded decisions are checked."""
    assert sum(map(len, _cases().values())) > 900
