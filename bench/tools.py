"""The command line: how fast recorded cases are answered, and how soon help is there."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bench.report import Figure

DATA = Path(__file__).parent.parent / "tests" / "data" / "conformance"


def _berth(*args: str, text: bytes = b"") -> tuple[float, bytes]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "berth", *args]
    done = subprocess.run(command, input=text, capture_output=True, check=True)
    return time.perf_counter() - start, done.stdout


def measure() -> Iterable[Figure]:
    lines = []
    for path in sorted(DATA.glob("*.jsonl.gz")):
        if path.name.startswith(("large", "sequence")):
            continue
        with gzip.open(path, "rt", encoding="utf-8") as recorded:
            lines += [json.dumps(json.loads(line)["case"]) for line in recorded]
    seconds, answers = _berth("evaluate", text="\n".join(lines).encode())
    if answers.count(b"\n") != len(lines):
        raise SystemExit("berth evaluate did not answer every case")
    yield Figure("berth evaluate", 0, 0, len(lines) / seconds, "cases/s", None, 300, "higher")
    yield Figure("berth --help", 0, 0, min(_berth("--help")[0] for _ in range(5)), "s", None, 0.3)
