"""Objects that are not what their author thinks they are: unreadable, misspelt, refused, there twice."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.offline.lint.findings import Hit, Severity, check, hit
from berth.engine.offline.lint.subjects import template_of
from berth.engine.offline.lint.world import World
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.manifests.manifest import DuplicateError, Manifest
from berth.kube.manifests.unknown_fields import KnownSchemas, hint, unknown_in
from berth.kube.manifests.unknown_names import (
    LINT_IGNORE,
    unknown_annotations,
    unknown_kinds,
    unserved_versions,
)
from berth.kube.objects import CronJob, Job, ReplicationController, Workload
from berth.kube.validation.errors import render

# What becomes of a plain y, no or on.
_WORDS_OF_YAML = ("expected a string, got true", "expected a string, got false")
_CUT = "the object is judged no further"


@check("BERTH001")
def unreadable_object(world: World) -> Iterator[Hit]:
    for error in world.given.refused:
        if error.source is None or error.foreign or isinstance(error, DuplicateError):
            continue
        path = error.detail.partition(": ")[0].partition(" ")[0]
        why = error.detail.removeprefix(f"{path}: ")
        quoted = "in quotes" if why in _WORDS_OF_YAML else "as its kind has it"
        yield Hit(error.source, error.title or "an object", path, why, f"write it {quoted}; {_CUT}")


@check("BERTH002")
def unknown_field(world: World) -> Iterator[Hit]:
    schemas = KnownSchemas(world.given.custom or {})
    for manifest in _checked(world):
        for place, name, value in unknown_in(manifest, schemas):
            meant = hint(place, name, value)
            path = render((*place.path, name))
            why = f"{manifest.kind} has no such field, so it is dropped"
            yield _unknown(world, manifest, path, why, meant or "take it out")


@check("BERTH003")
def unknown_kind(world: World) -> Iterator[Hit]:
    checked = list(_checked(world))
    found = {
        (each.manifest.api_version, each.manifest.kind): each.hint
        for each in unknown_kinds(checked, world.given.custom)
    }
    for manifest in checked:
        meant = found.get((manifest.api_version, manifest.kind))
        if meant is not None:
            home = manifest.api_version or "Kubernetes"
            fix = f"did you mean {meant}?" if meant else "look it up with kubectl api-resources"
            why = f"{manifest.kind} is not a kind of {home}, so nothing looks at this object"
            field = "apiVersion" if " of " in meant else "kind"
            yield _unknown(world, manifest, field, why, fix)
        for old in unserved_versions([manifest]):
            yield _unknown(world, manifest, "apiVersion", old.why, f"write {old.instead}")


@check("BERTH004")
def refused_object(world: World) -> Iterator[Hit]:
    for manifest, error in world.invalid:
        why = f"the API server refuses it: {str(error).removeprefix(f'{error.field}: ')}"
        yield hit(manifest, error.field, why, f"write a value that is allowed; {_CUT}")


@check("BERTH005")
def unknown_annotation(world: World) -> Iterator[Hit]:
    for manifest in _checked(world):
        for found in unknown_annotations([manifest]):
            path = f"{render(found.path)}[{found.name}]"
            if found.belongs:
                continue  # see BERTH008
            why = found.no_effect or "Berth has no such annotation, so its value is not read"
            fix = f"did you mean {found.near}?" if found.near and not found.no_effect else "take it out"
            yield _unknown(world, manifest, path, why, fix)


def _checked(world: World) -> Iterator[Manifest]:
    if world.given.strict is not None:
        yield from world.given.files


def _unknown(world: World, manifest: Manifest, path: str, why: str, fix: str) -> Hit:
    return hit(manifest, path, why, fix, None if world.given.strict else Severity.WARNING)


@check("BERTH006")
def object_twice(world: World) -> Iterator[Hit]:
    for error in world.given.refused:
        if isinstance(error, DuplicateError) and error.source is not None:
            fix = "take one out, or judge their folders one by one"
            yield Hit(error.source, error.title, "metadata.name", f"it {error.detail}", fix)


@check("BERTH007")
def unknown_code(world: World) -> Iterator[Hit]:
    for manifest in world.given.files:
        for path, codes in ignored_codes(manifest):
            for code in sorted(codes - world.given.codes):
                why = f'there is no check "{code}", so nothing is ignored for it'
                yield hit(manifest, path, why, "write codes such as BERTH111, with commas between them")


def ignored_codes(manifest: Manifest) -> Iterator[tuple[str, frozenset[str]]]:
    """What the annotations of an object and of its pods' template say is not to be told, and where."""
    view = manifest.object
    if view is None:
        found = [("", _raw_annotation(manifest))]
    else:
        prefix, template = template_of(view)
        places = (("", view.metadata), (prefix, template.metadata if template is not None else None))
        found = [(path, ((held and held.annotations) or {}).get(LINT_IGNORE)) for path, held in places]
    for prefix, text in found:
        if text is not None:
            codes = frozenset(filter(None, text.replace(",", " ").upper().split()))
            yield f"{prefix}metadata.annotations[{LINT_IGNORE}]", codes


def _raw_annotation(manifest: Manifest) -> str | None:
    metadata = manifest.to_dict().get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    value = annotations.get(LINT_IGNORE) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else None


@check("BERTH008")
def annotation_beside_template(world: World) -> Iterator[Hit]:
    for manifest in world.judged(Workload, ReplicationController, Job, CronJob):
        view = manifest.object
        if view is None or AFFINITY_ANNOTATION not in (view.metadata.annotations or {}):
            continue
        path = f"metadata.annotations[{AFFINITY_ANNOTATION}]"
        why = f"rules are read from pods, and those of this {manifest.kind} do not have it"
        yield hit(manifest, path, why, f"move it to {template_of(view)[0]}metadata.annotations")
