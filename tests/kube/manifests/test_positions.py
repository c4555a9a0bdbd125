"""A field of a manifest is on the line on which a person would look for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berth.kube.manifests.manifest import ManifestError, load
from berth.kube.manifests.positions import Positions

WRITTEN = """\
# a comment
apiVersion: v1
kind: Pod
metadata:
  name: first
---
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    berth.dev/affinity: |
      podAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: zone
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: &labels
        app: web
    spec:
      containers:
        - name: a
          image: a
        - name: b
          image: b
      nodeSelector:
        <<: *labels
        a.b/c: d
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: x}
  - apiVersion: v1
    kind: Pod
    metadata:
      name: z
"""
PLACES = [
    ("first", "metadata.name", 5),
    ("first", "spec.affinity", 2),
    ("web", "", 8),
    ("web", "metadata.annotations[berth.dev/affinity]", 13),
    ("web", "metadata.annotations[berth.dev/affinity].podAffinity", 14),
    (
        "web",
        (
            "metadata.annotations[berth.dev/affinity].podAffinity."
            "requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
        ),
        16,
    ),
    ("web", "spec.template.spec.containers[1].image", 28),
    ("web", "spec.template.spec.containers[2].image", 24),
    ("web", "spec.template.spec.nodeSelector[a.b/c]", 31),
    ("web", "spec.template.spec.nodeSelector[app]", 22),
    ("web", "spec.replicas", 17),
    ("x", "metadata.name", 38),
    ("z", "metadata.name", 42),
    ("z", "spec", 39),
]


def lines(file: Path) -> list[tuple[str, str, int | None]]:
    sources = {manifest.name: manifest.source for manifest in load([file])}
    positions = Positions()
    return [(name, path, positions.line(sources[name], path)) for name, path, _ in PLACES]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "byte-order-mark"])
def test_lines_of_yaml(tmp_path: Path, line_end: str, start: str) -> None:
    """Documents, lists, merged keys, texts that are YAML: the key's line, or that of what it would be in."""
    file = tmp_path / "all.yaml"
    file.write_bytes((start + WRITTEN.replace("\n", line_end)).encode())
    assert lines(file) == PLACES


def test_lines_of_json(tmp_path: Path) -> None:
    """The same in JSON, also in a list and with escapes that no YAML has."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"\ud83d\ude00 \\": "[1"}}}
    file = tmp_path / "all.json"
    file.write_text(json.dumps(pod, indent=1))
    (only,) = load([file])
    assert Positions().line(only.source, "metadata.labels") == 6
    file.write_text(
        json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": [pod, {**pod, "metadata": {"name": "q"}}]},
            indent="\t",
        )
    )
    _, second = load([file])
    assert Positions().line(second.source, "metadata.name") == 19
    assert Positions().line(second.source, "spec.x[3]") == 15
    assert Positions().line(second.source, "metadata[0].y") == 18


def test_standard_input(tmp_path: Path) -> None:
    """What came from standard input is handed in; a file that is gone has no lines."""
    file = tmp_path / "p.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    with file.open("rb") as stdin:
        (piped,) = load(["-"], stdin)
    (read,) = load([file])
    assert Positions(file.read_bytes()).line(piped.source, "metadata.name") == 3
    file.unlink()
    assert Positions().line(read.source, "metadata.name") is None


def test_what_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    """Who wants to know of it gets everything else, whatever is wrong and wherever it is."""
    good = "{apiVersion: v1, kind: Pod, metadata: {name: %s}}"
    broken = "{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {priority: high}}"
    (tmp_path / "a.yaml").write_text(
        f"{good % 'a'}\n---\nservices: {{}}\n---\n{broken}\n---\n{good % 'b'}\n---\n{good % 'a'}\n"
    )
    (tmp_path / "b.yaml").write_text(f"{good % 'c'}\n---\n'\n")
    (tmp_path / "c.json").write_text(
        '{"apiVersion": "v1", "kind": "PodList", "items": [3, {"metadata": {"name": "d"}}]}'
    )
    refused: list[ManifestError] = []
    loaded = load([tmp_path], refused=refused.append)
    assert [manifest.name for manifest in loaded] == ["a", "b", "c", "d"]
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    assert [error.detail for error in refused] == [
        "kind is missing",
        'spec.priority: expected an integer, got "high"',
        f"is there twice: in {a}, document 1 and in {a}, document 5",
        f"{b}: not valid YAML: line 4: found unexpected end of stream",
        "expected a mapping, got 3",
    ]
    assert [error.foreign for error in refused] == [True, False, False, False, True]
