"""The stable objects behind `berth what-if -o json`; docs/output.md describes them."""

from __future__ import annotations

import msgspec

from berth.cli.output.documents import API_VERSION, Document
from berth.engine.offline.snapshot import Snapshot


def what_if_document(kind: str, found: msgspec.Struct, snapshot: Snapshot) -> Document:
    """What was found, with what is to be said about the input."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        **msgspec.to_builtins(found),
        "notes": list(snapshot.notes),
        "warnings": list(snapshot.warnings),
    }
