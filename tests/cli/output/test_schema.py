"""What programs are given is as the schema and docs/output.md say."""

import json
import re
from pathlib import Path

import pytest

from berth.engine.offline.explaining.reasons import GROUP_INCOMPLETE, GROUP_WITHOUT_ROOM
from berth.engine.rules import RULES
from tests.cli.output.situations import SITUATIONS
from tests.support.cli.command import berth
from tests.support.cli.schema import SCHEMA, Json, faults
from tests.support.paths import ROOT

EXAMPLES = sorted(
    path
    for folder in ("node-affinity", "pod-affinity", "topology-spread", "execution-time")
    for path in (ROOT / "examples" / folder).glob("*.yaml")
)


def printed(*command: str) -> Json:
    outcome = berth(*command, "-o", "json")
    assert outcome.code in (0, 1), outcome.err
    document: Json = json.loads(outcome.out)
    return document


def cluster(folder: Path, name: str) -> str:
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": SITUATIONS[name](6)}))
    return str(file)


@pytest.mark.parametrize("name", SITUATIONS)
def test_situations(tmp_path: Path, name: str) -> None:
    """Every tool's answer to every situation is as the schema has it, and every reason has its code."""
    file = cluster(tmp_path, name)
    answers = [
        printed("explain", "p", "-n", "shop", "-f", file),
        printed("simulate", "-f", file),
        printed("audit", "-f", file),
    ]
    assert [fault for answer in answers for fault in faults(answer)] == []
    for rejection in (each for node in answers[0]["nodes"] for each in node["rejections"]):
        assert [detail["reason"] for detail in rejection["details"]]
        assert {detail["reason"] for detail in rejection["details"]} == set(rejection["reasons"])
        assert {detail["rule"] for detail in rejection["details"]} == {rejection["rule"]}
    for unplaced in answers[1]["unplaced"]:
        assert unplaced["details"] or unplaced["reason"] == "OtherScheduler"


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_if(tmp_path: Path, name: str) -> None:
    """The same of what would be, and everybody without a node has reasons with codes."""
    file = cluster(tmp_path, name)
    answer = printed("what-if", "-f", file, "--replace-all")
    assert list(faults(answer)) == []
    for unplaced in answer["unplaced"]:
        assert unplaced["details"] or unplaced["reason"] == "OtherScheduler"


QUESTIONS = [
    ("WhatIf", ["--drain", "node-a2", "--rollout", "deploy/web"]),
    ("WhatIf", ["--lose", "zone=b"]),
    ("WhatIf", ["--label", "node-a1:topology.kubernetes.io/zone=b"]),
    ("EveryLoss", ["--every", "zone"]),
    ("Fit", ["--fit", "deploy/web"]),
    ("Versus", ["--vs", "{scenario}", "--lose", "zone=a"]),
    ("ScenarioOutcome", ["--scenario", "{scenario}"]),
]


@pytest.mark.parametrize(("kind", "question"), QUESTIONS)
def test_questions(tmp_path: Path, kind: str, question: list[str]) -> None:
    """Every question of what-if is answered as the schema has it, with reasons as data."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("steps: [{name: one, lose: zone=b, expect: {placed: all}}]")
    words = [word.format(scenario=scenario) for word in question]
    answer = printed("what-if", "-f", str(ROOT / "demo"), *words)
    assert answer["kind"] == kind
    assert list(faults(answer)) == []
    for row in answer.get("rows", ()):
        assert bool(row["details"]) == bool(row["unplaced"])
    assert "stops" not in answer or [detail["code"] for detail in answer["details"]]


def test_broken_rules_have_codes(tmp_path: Path) -> None:
    """A rule that is newly broken is told with its code, its field and the peers."""
    file = tmp_path / "cluster.yaml"
    pods = [
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}, namespace: default, labels: {{app: x}}}}, "
        f"spec: {{nodeName: n{i}, containers: [{{name: c, image: i}}], affinity: {{podAntiAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: rack, labelSelector: "
        "{matchLabels: {app: x}}}]}}}}"
        for i in range(2)
    ]
    nodes = [
        f"{{apiVersion: v1, kind: Node, metadata: {{name: n{i}, labels: {{rack: r{i}}}}}}}" for i in range(2)
    ]
    file.write_text("\n---\n".join([*nodes, *pods]))
    answer = printed("what-if", "-f", str(file), "--label", "n0:rack=r1")
    assert list(faults(answer)) == []
    assert {(each["code"], *each["peers"]) for each in answer["broken"]} == {
        ("PodAntiAffinityPeer", "default/p0"),
        ("PodAntiAffinityPeer", "default/p1"),
        ("PeerAntiAffinity", "default/p0"),
        ("PeerAntiAffinity", "default/p1"),
    }


def test_lint() -> None:
    """Findings are as the schema has them."""
    answer = printed("lint", "-f", str(ROOT / "demo"))
    assert list(faults(answer)) == []
    assert answer["findings"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples(path: Path) -> None:
    """What is said of the examples is as the schema has it."""
    answers = [printed("simulate", "-f", str(path)), printed("audit", "-f", str(path))]
    assert [fault for answer in answers for fault in faults(answer)] == []


def test_a_workload(tmp_path: Path) -> None:
    """How many further replicas fit is part of it."""
    answer = printed("explain", "deployment/web", "-n", "shop", "-f", cluster(tmp_path, "rollout"))
    assert list(faults(answer)) == []
    further = {"count": 0, "orMore": False, "message": answer["message"], "pods": 7, "waiting": 1}
    assert answer["furtherReplicas"] == further


def test_a_fault_is_found() -> None:
    """A field that is missing, unheard of or of another kind does not pass."""
    answer = printed("explain", "report", "-f", str(ROOT / "demo"))
    assert list(faults(answer)) == []
    del answer["queue"]
    answer["nodes"][0]["rejections"][0]["details"][0].update(code="Other", more=1, peers="p")
    place = "$.nodes[0].rejections[0].details[0]"
    found = [fault.partition(" is ")[0] for fault in faults(answer)]
    assert found == ["$.queue", f"{place}.code: 'Other'", f"{place}.peers: 'p'", f"{place}.more"]


# --- the codes ------------------------------------------------------------------------------------


GROUP_REASONS = (GROUP_INCOMPLETE, GROUP_WITHOUT_ROOM)


def declared() -> dict[str, list[str]]:
    """Code -> the rules that have it; none for what is no rule's."""
    found: dict[str, list[str]] = {reason.code: [] for reason in GROUP_REASONS}
    for rule in RULES:
        for reason in rule.reasons:
            found.setdefault(reason.code, []).append(rule.name)
    return found


def test_a_code_is_one_reason() -> None:
    """No two reasons have one code, and every rule that refuses nodes has a reason."""
    reasons = {reason for rule in RULES for reason in rule.reasons} | set(GROUP_REASONS)
    assert len(reasons) == len(declared())
    assert [rule.name for rule in RULES if not rule.reasons and rule.filters] == []


def test_the_codes_are_in_the_schema_and_documented() -> None:
    """The schema has every code, and docs/output.md says of each whose it is."""
    assert SCHEMA["$defs"]["Code"]["enum"] == sorted(declared())
    text = (ROOT / "docs" / "output.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", text, re.MULTILINE)
    told = {code: re.findall(r"\w+", rules) for code, rules in rows if code in declared()}
    assert told == declared()


@pytest.mark.parametrize("kind", [each["$ref"].rpartition("/")[2] for each in SCHEMA["anyOf"]])
def test_the_fields_are_documented(kind: str) -> None:
    """docs/output.md names every field that the schema has."""
    text = (ROOT / "docs" / "output.md").read_text()
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    about = next(part for part in section if f"kind: {kind}`" in part)
    shared = next(part for part in section if part.startswith("Reasons"))

    def names(schema: Json) -> set[str]:
        found = set(schema.get("properties", ()))
        for inside in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
            found |= names(inside.get("items", inside))
        return found

    known = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", about + shared))))
    assert names(SCHEMA["$defs"][kind]) - known - {"apiVersion", "kind"} == set()
