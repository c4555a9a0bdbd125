"""A kubeconfig for a server that a test runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def kubeconfig(folder: Path, url: str, user: dict[str, Any] | None = None) -> Path:
    """The file, for somebody with a token unless another user is given."""
    path = folder / "config"
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    }
    path.write_text(json.dumps(body))
    return path
