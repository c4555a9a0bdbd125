"""The recorded decisions of kube-scheduler: which version answered what."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from berth.kube.versions import VERSIONS, KubernetesVersion
from tests.support import paths

V1_36, V1_37 = VERSIONS["1.36"], VERSIONS["1.37"]
# The version that a folder's `expect` belongs to.
FOLDERS = {"conformance": V1_36, "conformance-1.37": V1_37}
FILES = [path for folder in FOLDERS for path in sorted((paths.DATA / folder).glob("*.jsonl.gz"))]

Recording = tuple[KubernetesVersion, dict[str, Any], dict[str, Any]]  # version, case and answer


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.partition('.')[0]}"


def recorded(path: Path) -> Iterator[Recording]:
    """Every answer in a file, of whichever versions."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            yield FOLDERS[path.parent.name], entry["case"], entry["expect"]
            for release, answer in entry.get("others", {}).items():
                yield VERSIONS[release.removeprefix("v").rpartition(".")[0]], entry["case"], answer
