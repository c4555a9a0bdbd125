"""Objects written as YAML, the way a reader of these tests would write them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

from berth.kube.objects import Pod
from berth.kube.text import yaml_reader
from berth.kube.text.decoding import convert, without_nulls

_T = TypeVar("_T")


def value(text: str) -> Any:
    (document,) = yaml_reader.read(dedent(text))
    return document.value


def view(kind: type[_T], text: str) -> _T:
    return convert(without_nulls(value(text)), kind)


def pod(spec: str = "", metadata: str = "") -> Pod:
    """A valid pod named default/web with `spec` and `metadata` (YAML mappings) on top."""
    given = {"name": "web", "namespace": "default", **(value(metadata) if metadata else {})}
    containers = {"containers": [{"name": "main", "image": "nginx"}]}
    fields = {**containers, **(value(spec) if spec else {})}
    return convert(without_nulls({"metadata": given, "spec": fields}), Pod)


def written(tmp_path: Path, **files: str) -> None:
    for name, text in files.items():
        file = tmp_path / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
