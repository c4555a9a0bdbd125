"""Which of two copies of a binding is the newer one."""

from __future__ import annotations

import re

from berth.kube.karmada import Binding

_version = re.compile(r"[1-9][0-9]*", re.ASCII).fullmatch


def is_newer(copy: Binding, than: Binding) -> bool | None:
    """Whether a copy of an object is newer than another; None if their versions say nothing."""
    versions = [copy.metadata.resource_version or "", than.metadata.resource_version or ""]
    if not all(map(_version, versions)):
        return None
    return int(versions[0]) > int(versions[1])
