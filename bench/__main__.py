"""`python -m bench [PART …]`: print the table, write bench-results.json; PARTS below are all there are.

`python -m bench live` has options of its own and is not part of the rest: it takes many minutes.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from bench import engine, eviction, fleet, load, page, plane, server, spreading, tools, what_if
from bench.live import command as live
from bench.report import Figure, print_table, write_json

OUTPUT = Path("bench-results.json")


def progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what} …", end="", file=sys.stderr, flush=True)


PARTS: dict[str, Callable[[], Iterable[Figure]]] = {
    "engine": lambda: engine.placements(engine.SIZES, progress),
    "growth": lambda: (*engine.no_tax(progress), *engine.growth(progress)),
    "load": load.measure,
    "tools": tools.measure,
    "what-if": what_if.measure,
    "server": server.measure,
    "plane": plane.measure,
    "page": page.measure,
    "eviction": eviction.measure,
    "spreading": spreading.measure,
    "fleet": fleet.measure,
}


def main(names: list[str]) -> int:
    if names[:1] == ["live"]:
        return live.main(names[1:])
    unknown = set(names) - set(PARTS)
    if unknown:
        print(
            f"error: unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}",
            file=sys.stderr,
        )
        return 2
    figures: list[Figure] = []
    for name in names or PARTS:
        figures += PARTS[name]()
    progress("done")
    print(
        f"\nPython {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}; one process\n"
    )
    print_table(figures)
    write_json(figures, OUTPUT)
    missed = [f.name for f in figures if f.met is False]
    print(
        f"\n{len(figures)} figures in {OUTPUT}" + (f"; limits missed: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
