"""Running the command line inside the test's process, as a user would see it."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from berth.cli.main import run

NODES = """
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Node
    metadata: {name: n1, labels: {kubernetes.io/hostname: n1, topology.kubernetes.io/zone: a}}
    status: {capacity: {cpu: "4", memory: 8Gi, pods: "10"}}
  - apiVersion: v1
    kind: Node
    metadata: {name: n2, labels: {kubernetes.io/hostname: n2, topology.kubernetes.io/zone: b}}
    status: {capacity: {cpu: "4", memory: 8Gi, pods: "10"}}
"""

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: web}}
      containers: [{name: web, image: web, resources: {requests: {cpu: "1"}}}]
"""


def pod(name: str = "p", spec: str = "", *, cpu: str = "1", metadata: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}{metadata}}}
spec:
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]
{spec}
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def berth(*arguments: str | Path, stdin: str | bytes = "") -> Outcome:
    runner = CliRunner()
    with runner.isolation(input=stdin) as (out, err, _):
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        return Outcome(code, out.getvalue().decode(), err.getvalue().decode())


def files(folder: Path, *contents: str) -> Path:
    """A folder with these manifests."""
    for i, content in enumerate(contents):
        folder.joinpath(f"{i}.yaml").write_text(content)
    return folder


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
