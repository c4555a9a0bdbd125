"""What the API server would object to in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.kube.defaults import taken_in
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod
from berth.kube.validation.errors import FieldError
from berth.kube.validation.objects import validate


def problems(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, FieldError]]:
    """The errors of each object, pods being defaulted as the server would do first."""
    for manifest in manifests:
        view = manifest.object
        if isinstance(view, Pod):
            view = taken_in(view)
        if view is not None:
            for error in validate(view):
                yield manifest, error
