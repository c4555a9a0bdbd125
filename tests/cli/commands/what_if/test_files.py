"""`berth what-if` on files, as people use it."""

import json
from pathlib import Path

import pytest
import yaml

from berth.cli.input import manifests
from berth.cli.main import run
from tests.support.cli.command import Terminal, berth, files
from tests.support.manifests.what_if import budget, node, pod, spread, workload

THINGS = [
    node("a1", "a"),
    node("b1", "b"),
    node("c1", "c"),
    workload("Deployment", "web", 3, topologySpreadConstraints=spread("web")),
    budget("web", maxUnavailable=1),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    (tmp_path / "cluster").mkdir()
    return files(tmp_path / "cluster", yaml.safe_dump_all(THINGS))


LOSS = """\
Zone a can be lost: the pod lands elsewhere.

Moves:
POD    FROM     TO       WHY THERE
{pod}   a1 (a)   b1 (b)   one of 2 best of 2 nodes that fit

Spread:
OWNER            SPREAD OVER   KIND   SKEW    MAX   OK    PODS PER DOMAIN
Deployment/web   zone          hard   0 → 1   1     yes   a 1 → -, b 1 → 2

Utilisation by zone:
ZONE   CPU         MEMORY   PODS
a      25% → -     0% → -   1 → -
b      25% → 50%   0%       1 → 2
Utilisation by node:
NODE   CPU         MEMORY   PODS
a1     25% → -     0% → -   1 → -
b1     25% → 50%   0%       1 → 2
"""


def test_the_answer_comes_first(cluster: Path) -> None:
    """One sentence, then the sections that have something to say."""
    outcome = berth("what-if", "--lose", "zone=a", "-f", cluster)
    name = outcome.out.split("\n")[4].split()[0]
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == LOSS.format(pod=name).replace("POD    FROM", f"{'POD'.ljust(len(name))}   FROM")


def test_exit_codes(cluster: Path) -> None:
    """0: all is well, 1: a pod has no node or a drain does not end, 2: bad input."""
    assert berth("what-if", "--lose", "zone=a", "-f", cluster).code == 0
    assert berth("what-if", "--scale", "deploy/web=99", "-f", cluster).code == 1
    refused = berth("what-if", "--drain", "a9", "-f", cluster)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith("error: node a9 is not among the files; ")


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ({"maxSurge": 1.5}, ".maxSurge: expected an integer or a string, got 1.5"),
        ({"maxUnavailable": [1]}, ".maxUnavailable: expected an integer or a string, got a list"),
        ("hello", ': expected a mapping, got "hello"'),
    ],
)
def test_a_strategy_that_cannot_be_read_is_refused(tmp_path: Path, strategy: object, why: str) -> None:
    """What a rollout goes by is read with the workload: one sentence says where it is wrong."""
    web = workload("Deployment", "web", 3, strategy={"rollingUpdate": strategy})
    file = files(tmp_path, yaml.safe_dump(web))
    outcome = berth("what-if", "--rollout", "deploy/web", "-f", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(f"Deployment default/web: spec.strategy.rollingUpdate{why}\n")


def test_changes_are_made_in_the_order_given(cluster: Path) -> None:
    """Whatever their names: the options of different changes keep their order, and -l belongs to --drain."""
    args = (
        "--cordon",
        "b1",
        "--drain",
        "-l",
        "kubernetes.io/hostname=a1",
        "--label",
        "c1:x=y",
        "--cordon",
        "c1",
    )
    document = json.loads(berth("what-if", *args, "-f", cluster, "-o", "json").out)
    assert document["changes"] == [
        "cordon node b1",
        "drain nodes with kubernetes.io/hostname=a1",
        "label node c1 x=y",
        "cordon node c1",
    ]


def test_json_and_yaml_hold_the_same(cluster: Path) -> None:
    """A versioned object with every section, whether it has something to say or not."""
    shown = berth("what-if", "--lose", "zone=a", "-f", cluster, "-o", "json")
    document = json.loads(shown.out)
    assert (document["apiVersion"], document["kind"], document["ok"]) == (
        "berth.dev/v1alpha1",
        "WhatIf",
        True,
    )
    sections = (
        "moves unplaced gone preempted broken healed spread budgets rounds rollouts stays "
        "localStorage nodes zones measuresBefore measures notes warnings"
    )
    assert set(sections.split()) <= document.keys()
    assert yaml.safe_load(berth("what-if", "--lose", "zone=a", "-f", cluster, "-o", "yaml").out) == document
    assert berth("what-if", "--lose", "zone=a", "-f", cluster, "-o", "wide").code == 0


def test_every(cluster: Path) -> None:
    """One row a domain; exit 1 if one of them leaves a pod without a node."""
    outcome = berth("what-if", "--every", "zone", "-f", cluster)
    assert outcome.code == 0
    assert outcome.out.startswith("Each of the 3 zones can be lost")
    assert [line.split()[0] for line in outcome.out.splitlines()[3:]] == ["a", "b", "c"]
    tight = berth("what-if", "--scale", "deploy/web=12", "--every", "node", "-f", cluster, "-o", "json")
    assert tight.code == 1
    assert [len(row["unplaced"]) for row in json.loads(tight.out)["rows"]] == [4, 4, 4]


def test_every_with_many_rows(tmp_path: Path) -> None:
    """Beyond a hundred rows those that cannot be lost are shown; -o wide lists all."""
    things = [node(f"n{i:03}", "a") for i in range(120)] + [
        pod("big", "n077", owner="ReplicaSet/big", cpu="5")
    ]
    folder = files(tmp_path, yaml.safe_dump_all(things))
    short, wide = (berth("what-if", "--every", "node", "-f", folder, *form) for form in ((), ("-o", "wide")))
    assert short.out.splitlines()[3].startswith("n077 ")
    assert "(120 rows; -o wide lists every one)" in short.out
    assert len(wide.out.splitlines()) == 123


def test_every_has_a_progress_bar(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal it is seen how far it is."""
    monkeypatch.setattr(manifests, "_SHOW_AFTER", 0.0)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    assert run(["what-if", "--every", "node", "-f", str(cluster)]) == 0
    assert "losing each in turn" in terminal.getvalue()


def test_fit(cluster: Path) -> None:
    """It is told how many further replicas fit, and what stops the next."""
    outcome = berth("what-if", "--fit", "deploy/web", "-f", cluster)
    assert outcome.code == 0
    assert outcome.out.startswith(
        "9 further replicas of Deployment/web fit; the next finds no node: 0/3 nodes"
    )
    assert berth("what-if", "--lose", "zone=a", "--fit", "deploy/web", "-f", cluster).out.startswith(
        "5 further"
    )


PACK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {filter: {disabled: [{name: PodTopologySpread}]}, score: {disabled: [{name: "*"}]}}}]
"""


def test_versus(cluster: Path, tmp_path: Path) -> None:
    """A configuration or a scenario is compared on the same pods, as a table and as JSON."""
    (tmp_path / "pack.yaml").write_text(PACK)
    outcome = berth("what-if", "--vs", tmp_path / "pack.yaml", "-f", cluster)
    assert outcome.code == 0
    assert "B is" not in outcome.out.splitlines()[0]
    assert "worst skew" in outcome.out
    document = json.loads(berth("what-if", "--vs", tmp_path / "pack.yaml", "-f", cluster, "-o", "json").out)
    assert document["a"]["measures"]["nodesUsed"] == 3
    assert document["b"]["measures"]["nodesUsed"] == 1
    (tmp_path / "s.yaml").write_text("steps: [{lose: zone=a}]")
    scenario = berth("what-if", "--vs", tmp_path / "s.yaml", "-f", cluster, "-o", "json")
    assert json.loads(scenario.out)["b"]["measures"]["nodesUsed"] == 2
    same = berth("what-if", "--vs", tmp_path / "pack.yaml", "--cordon", "c1", "-f", cluster)
    assert same.out.startswith("Both ways every pod has the same node."), "who waits is placed the same way"
    refused = berth("what-if", "--vs", cluster / "0.yaml", "-f", cluster)
    assert (refused.code, "expected one document" in refused.err) == (2, True)


SCENARIO = """\
name: zones
steps:
- name: lose a
  lose: zone=a
  expect: {placed: all, skew: 1}
- name: more
  fresh: true
  apply: more.yaml
  expect: {placed: all}
"""


def test_a_scenario(cluster: Path, tmp_path: Path) -> None:
    """Files are found beside it; exit 0 if everything is as expected, 1 if not."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(workload("Deployment", "more", 2)))
    outcome = berth("what-if", "--scenario", tmp_path / "s.yaml", "-f", cluster)
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "All 2 steps hold.")
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("placed: all}", "placed: 4}"))
    failed = berth("what-if", "--scenario", tmp_path / "s.yaml", "-f", cluster)
    assert (failed.code, failed.out.splitlines()[0]) == (1, "1 of 2 steps do not hold: more.")


def test_a_scenario_with_a_typo(cluster: Path, tmp_path: Path) -> None:
    """A typo in a scenario is told with file, line and what is allowed."""
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("skew", "scew"))
    refused = berth("what-if", "--scenario", tmp_path / "s.yaml", "-f", cluster)
    assert refused.code == 2
    assert refused.err == (
        f"error: {tmp_path / 's.yaml'}: line 5: an expectation has no scew; did you mean skew? it may have "
        "placed, unplaced, moved, skew, broken, preempted, lost, blocked, rounds\n"
    )
    (tmp_path / "s.yaml").write_text("steps:\n- name: x\n  drain: [a1,\n  b9]\n")
    told = berth("what-if", "--scenario", tmp_path / "s.yaml", "-f", cluster).err
    assert "s.yaml: line 4: node b9 is not" in told
    against = berth("what-if", "--vs", tmp_path / "s.yaml", "-f", cluster)
    assert (against.code, "s.yaml: line 4: node b9 is not" in against.err) == (2, True)
    (tmp_path / "s.yaml").write_text("steps: [")
    assert "not valid YAML: line" in berth("what-if", "--scenario", tmp_path / "s.yaml", "-f", cluster).err


@pytest.mark.parametrize("change", ["apply", "config", "add"])
def test_a_file_that_a_scenario_names_and_that_is_not_there(
    cluster: Path, tmp_path: Path, change: str
) -> None:
    """It is told where in the scenario it is named."""
    (tmp_path / "s.yaml").write_text(f"steps:\n- name: first\n  {change}: nix.yaml\n")
    refused = berth("what-if", "--scenario", tmp_path / "s.yaml", "-f", cluster)
    assert refused.code == 2
    assert f"s.yaml: line 3: {tmp_path}/nix.yaml: no such file" in refused.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "there is no change to make; give --drain, --lose"),
        (("--every", "zone", "--fit", "deploy/web"), "--every and --fit answer different questions"),
        (("--scenario", "s.yaml", "--drain", "a1"), "--scenario has changes of its own"),
        (("--every", "rack"), "no node among the files has the label rack"),
        (("--apply", "nix.yaml"), "nix.yaml: no such file or folder"),
        (("--config", "nix.yaml"), "nix.yaml: no such file"),
        (("--scenario", "nix.yaml"), "nix.yaml: no such file"),
        (("a1",), "unexpected extra argument"),
    ],
)
def test_what_cannot_be_asked(cluster: Path, args: tuple[str, ...], words: str) -> None:
    """Bad input is one sentence and exit code 2."""
    refused = berth("what-if", *args, "-f", cluster)
    assert refused.code == 2
    assert words in refused.err


def test_unknown_fields_in_applied_files_are_told(cluster: Path, tmp_path: Path) -> None:
    """What is not understood in a file that is laid over the cluster is warned of, or refused."""
    (tmp_path / "new.yaml").write_text(yaml.safe_dump({**workload("Deployment", "web", 4), "sepc": {}}))
    warned = berth("what-if", "--apply", tmp_path / "new.yaml", "-f", cluster)
    assert "warning: " in warned.err
    strict = berth("what-if", "--apply", tmp_path / "new.yaml", "-f", cluster, "--validate", "strict")
    assert strict.code == 2


def test_rounds_of_several_drains(tmp_path: Path) -> None:
    """The table of moves says of which drain a round is."""
    things = [*(node(name, "a") for name in ("a1", "b1", "c1")), workload("Deployment", "web", 6)]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*things, budget("web", maxUnavailable=1)]))
    outcome = berth("what-if", "-f", tmp_path / "all.yaml", "--drain", "a1", "--drain", "b1", "-o", "wide")
    moves = outcome.out.partition("Moves:\n")[2].splitlines()
    assert moves[0].split()[:4] == ["POD", "FROM", "TO", "ROUND"]
    assert any("   2.1   " in line for line in moves[1:])
