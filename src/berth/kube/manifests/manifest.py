"""Manifests as people have them: files, folders, standard input; YAML, JSON, lists of anything.

A manifest keeps the original beside the typed view, so an object that is passed on loses
nothing.  Kinds that have no view are kept too.  Whatever is wrong with the input ends in a
:class:`ManifestError` whose text is one sentence naming file, object and field.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as _replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from berth.kube.manifests import kinds
from berth.kube.manifests.unreadable import unreadable_field
from berth.kube.objects import KubeObject, RawObject
from berth.kube.text import json_reader, yaml_reader
from berth.kube.text.decoding import TOO_DEEP, DecodeError, YamlError, convert, show, without_nulls
from berth.kube.text.near import possible

Progress = Callable[[int, int], None]  # told how much is done, and how much there is in all
ManifestKey = tuple[str, str, str | None, str]  # group, kind, namespace, name
_Report = Callable[[int], None]  # told how many bytes of one file are read

STDIN, STANDARD_INPUT = "-", "standard input"
DEFAULT_NAMESPACE = "default"
_EXTENSIONS = (".json", ".yaml", ".yml")
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_NO_TEXT = {  # how files begin that have to be made text first
    b"\x1f\x8b": "compressed (gzip): unpack it first",
    b"PK\x03\x04": "an archive (zip): unpack it first",
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16 text: save it as UTF-8"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where an object was written."""

    file: str
    document: int = 0  # counted from 1; 0 if the file holds only this one
    item: int | None = None  # index in a list's items
    line: int = 0  # the one on which a YAML document begins

    def __str__(self) -> str:
        place = f", document {self.document}" if self.document else ""
        return f"{self.file}{place}" + (f", items[{self.item}]" if self.item is not None else "")


class ManifestError(Exception):
    """Input that cannot be used; the message is a sentence for the user.

    Attributes:
        source: The object that is to blame; None if it is a whole file.
        title: What that is called, empty if nobody knows.
        detail: What is wrong with it, without file and title.
        foreign: It is nothing of Kubernetes'.
    """

    def __init__(
        self,
        message: str,
        source: Source | None = None,
        title: str = "",
        detail: str = "",
        *,
        foreign: bool = False,
    ) -> None:
        super().__init__(message)
        self.source, self.title, self.detail, self.foreign = source, title, detail or message, foreign


class DuplicateError(ManifestError):
    """An object that was there before."""


@dataclass(frozen=True, slots=True)
class Manifest:
    kind: str
    api_version: str
    namespace: str | None  # None for what lives in no namespace
    name: str
    source: Source
    object: KubeObject | None  # None for kinds Berth does not read
    raw: RawObject | msgspec.Raw

    def to_dict(self) -> RawObject:
        """The original object with every field it came with."""
        if isinstance(self.raw, dict):
            return self.raw
        decoded: RawObject = json_reader.to_builtins(self.raw)
        if "kind" in decoded:
            return decoded
        return {"apiVersion": self.api_version, "kind": self.kind, **decoded}  # an item of a PodList

    @property
    def key(self) -> ManifestKey:
        """What no two objects of a cluster have in common, whatever version they are written in."""
        return kinds.group_of(self.api_version), self.kind, self.namespace, self.name

    @property
    def title(self) -> str:
        """Kind and name, as messages call the object."""
        return title(self.kind, self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.source.file}: {self.title}"


_Entry = Manifest | ManifestError


def title(kind: str, namespace: str | None, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}".rstrip()


def load(
    paths: Iterable[str | Path],
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    refused: Callable[[ManifestError], None] | None = None,
) -> list[Manifest]:
    """Every object in the files and folders, in order; ``-`` is standard input.

    `refused` is told of what cannot be used, which is then left out; a file or folder must be there.

    Raises:
        ManifestError: something cannot be read, is not what it should be, or is there twice.
    """
    manifests: list[Manifest] = []
    seen: dict[ManifestKey, Manifest] = {}
    generated: dict[tuple[str, str | None, str], int] = {}
    files = _each_once(_files(paths))
    done, total = 0, sum(map(_size, files)) if progress else 0
    for file in files:
        content = _content(file, stdin)
        total = max(total, done + len(content))
        report = partial(_report, progress, done, total) if progress else None
        for found in _until_error(_read(file, content, report)):
            if isinstance(found, Manifest):
                found = _once(_with_generated_name(found, generated), seen)  # noqa: PLW2901
            if isinstance(found, Manifest):
                manifests.append(found)
            elif refused is None:
                raise found
            else:
                refused(found)
        done += len(content)
    return manifests


def listed(items: Iterable[msgspec.Raw], kind: str, api_version: str, server: str) -> Iterator[Manifest]:
    """Objects as an API server lists them, without their kind; raises ManifestError if one cannot be read."""
    source = Source(server)
    for item in items:
        try:
            yield _from_json_object(kind, api_version, source, item)
        except RecursionError:
            raise ManifestError(f"{server}: {TOO_DEEP}") from None


def _until_error(objects: Iterator[_Entry]) -> Iterator[_Entry]:
    """The objects up to one that cannot be used, and what is wrong with that."""
    try:
        yield from objects
    except ManifestError as error:
        yield error


def _report(progress: Progress, before: int, total: int, within: int) -> None:
    progress(before + within, total)


# --- files ----------------------------------------------------------------------------------------


def _files(paths: Iterable[str | Path]) -> Iterator[str]:
    for path in map(str, paths):
        if path != STDIN and os.path.isdir(path):  # noqa: PTH112
            yield from _folder(path)
        else:
            yield path


def _folder(folder: str) -> Iterator[str]:
    found = False
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(_EXTENSIONS) and not name.startswith("."):
                found = True
                yield str(Path(root, name))
    if not found:
        raise ManifestError(f"{folder}: no .yaml, .yml or .json file in this folder")


def _each_once(files: Iterable[str]) -> list[str]:
    """The files, none of which may be there twice: all its objects would be."""
    seen: dict[str, str] = {}
    for file in files:
        path = STDIN if file == STDIN else os.path.realpath(file)
        if path in seen:
            name = STANDARD_INPUT if file == STDIN else file
            other = f", also as {seen[path]}" if seen[path] != file else ""
            raise ManifestError(f"{name} is given twice{other}")
        seen[path] = file
    return list(seen.values())


def _size(file: str) -> int:
    try:
        return 0 if file == STDIN else os.stat(file).st_size  # noqa: PTH116
    except OSError:
        return 0  # reading it will say what is wrong


def _content(file: str, stdin: BinaryIO | None) -> bytes:
    try:
        if file == STDIN:
            return (stdin or sys.stdin.buffer).read()
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise ManifestError(f"{file}: no such file or folder") from None
    except OSError as error:
        raise ManifestError(f"{file}: cannot be read: {error.strerror or error}") from None


def _read(file: str, content: bytes, report: _Report | None) -> Iterator[_Entry]:
    name = STANDARD_INPUT if file == STDIN else file
    try:
        yield from _read_any(file, name, content, report)
    except RecursionError:
        raise ManifestError(f"{name}: {TOO_DEEP}") from None


def _read_any(file: str, name: str, content: bytes, report: _Report | None) -> Iterator[_Entry]:
    for beginning, what in _NO_TEXT.items():
        if content.startswith(beginning):
            raise ManifestError(f"{name}: it is {what}")
    content = content.removeprefix(_BOM)
    start = content.lstrip(_BLANK)[:1]
    is_json = file.endswith(".json")
    if is_json and not start:
        return  # as an empty YAML file
    if is_json or start == b"{":
        try:
            head = json_reader.decode(content, json_reader.Head)
        except json_reader.JsonError as error:
            # What starts like JSON may still be YAML, unless the name says it is not.
            if is_json:
                raise ManifestError(f"{name}: not valid JSON: {error}") from None
        except DecodeError as error:
            raise ManifestError(f"{name}: {error}") from None
        else:
            yield from _from_json(content, head, Source(name), report)
            return
    yield from _read_yaml(name, content, report)


def _read_yaml(name: str, content: bytes, report: _Report | None) -> Iterator[_Entry]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{name}: line {line}: not UTF-8 text") from None
    try:
        for number, document in enumerate(yaml_reader.read(text, report), 1):
            source = Source(name, number, line=document.line)
            yield from _until_error(_from_value(document.value, source))
    except YamlError as error:
        raise ManifestError(f"{name}: not valid YAML: {error}") from None


# --- objects --------------------------------------------------------------------------------------


def _from_json(
    text: bytes | msgspec.Raw, head: json_reader.Head, source: Source, report: _Report | None = None
) -> Iterator[_Entry]:
    kind, api_version = _identity(head.kind, head.api_version, source)
    item_kind = kinds.item_kind(kind)
    items = json_reader.items(head) if item_kind is not None else None
    if items is None or item_kind is None:
        if kinds.is_list(kind):
            _refuse_items(json_reader.to_builtins(text), source)
            return
        raw = text if isinstance(text, msgspec.Raw) else msgspec.Raw(text)
        yield _from_json_object(kind, api_version, source, raw)
        return
    done = 0
    for i, item in enumerate(items):
        place = _replace(source, item=i)
        if report is not None:
            done += len(memoryview(item))
            report(done)
        yield from _until_error(_from_json_item(item, item_kind, api_version, place))


def _from_json_item(item: msgspec.Raw, item_kind: str, api_version: str, place: Source) -> Iterator[_Entry]:
    try:
        head = json_reader.decode(item, json_reader.Head)
    except (DecodeError, json_reader.JsonError) as error:
        raise _at(place, str(error), foreign=True) from None
    if head.kind is None and item_kind:  # a PodList need not say that its items are pods
        head.kind, head.api_version = item_kind, api_version
    yield from _from_json(item, head, place)


def _from_json_object(kind: str, api_version: str, source: Source, raw: msgspec.Raw) -> Manifest:
    try:
        manifest = _manifest(kind, api_version, source, raw, lambda view: json_reader.decode(raw, view))
        # What a server has stored has been through a decoder that keeps one of two.
        stored = manifest.object is not None and manifest.object.metadata.uid
        if not stored and (repeated := json_reader.repeated_keys(raw)):
            text = f"{repeated[0]} is set twice"
            raise _complaint(kind, manifest.namespace, manifest.name, source, text)
    except json_reader.JsonError as error:
        raise ManifestError(f"{source}: not valid JSON: {error.detail}") from None
    return manifest


def _refuse_items(fields: Mapping[str, object], source: Source) -> None:
    """A list may have no items; something else instead of them, or by another name, is a mistake."""
    items = fields.get("items")
    if items is not None:
        raise ManifestError(f"{source}: items: expected a list, got {show(items)}")
    for key in fields:
        if isinstance(key, str) and possible(("items",), key) and key != "items":
            raise ManifestError(f"{source}: {key}: unknown field; did you mean items?")


def _from_value(value: Any, source: Source) -> Iterator[_Entry]:  # noqa: ANN401 - whatever the YAML holds
    if not isinstance(value, dict):
        raise _at(source, f"expected an object with apiVersion and kind, got {show(value)}", foreign=True)
    kind, api_version = _identity(value.get("kind"), value.get("apiVersion"), source)
    items, item_kind = value.get("items"), kinds.item_kind(kind)
    if not isinstance(items, list) or item_kind is None:
        if kinds.is_list(kind):
            _refuse_items(value, source)
            return
        yield _manifest(kind, api_version, source, value, lambda view: convert(without_nulls(value), view))
        return
    for i, item in enumerate(items):
        place = _replace(source, item=i)
        if isinstance(item, dict) and item_kind and "kind" not in item:
            item = {"apiVersion": api_version, "kind": item_kind, **item}  # noqa: PLW2901
        yield from _until_error(_from_value(item, place))


def _identity(kind: object, api_version: object, source: Source) -> tuple[str, str]:
    if not isinstance(kind, str) or not kind:
        missing = "kind is missing" if not kind else f"kind: expected a string, got {show(kind)}"
        raise _at(source, missing, foreign=api_version is None)
    if api_version is not None and not isinstance(api_version, str):
        raise _at(source, f"apiVersion: expected a string, got {show(api_version)}")
    return kind, api_version or ""


def _at(source: Source, detail: str, *, foreign: bool = False) -> ManifestError:
    return ManifestError(f"{source}: {detail}", source, detail=detail, foreign=foreign)


class _UnreadMetadata(msgspec.Struct, frozen=True):
    name: object = None
    namespace: object = None


class _UnreadObject(msgspec.Struct, frozen=True):
    """All we look at in an object of a kind we do not read."""

    metadata: _UnreadMetadata = _UnreadMetadata()


def _manifest(
    kind: str,
    api_version: str,
    source: Source,
    raw: RawObject | msgspec.Raw,
    decode: Callable[[type[Any]], Any],
) -> Manifest:
    view = kinds.view_of(api_version, kind)
    if (expected := kinds.expected_api_version(api_version, kind)) is not None:
        text = f"apiVersion: there is no {api_version} of this kind, expected {expected}"
        raise _undecoded(kind, source, decode, text)
    if view is None:
        name, namespace = _names_of_unknown(decode)
        return Manifest(kind, api_version, namespace, name, source, None, raw)
    try:
        decoded: KubeObject = decode(view)
    except DecodeError as error:
        raise _undecoded(kind, source, decode, str(error)) from None
    metadata = decoded.metadata
    namespace = None if kinds.is_cluster_scoped(kind) else metadata.namespace or DEFAULT_NAMESPACE
    if namespace is not None and not metadata.namespace:
        decoded = replace(decoded, metadata=replace(metadata, namespace=namespace))
    name = metadata.name or ""
    if not name and not metadata.generate_name:
        raise _complaint(kind, namespace, "", source, f"metadata.name is missing{_misspelt_name(decode)}")
    if (unreadable := unreadable_field(decoded)) is not None:
        raise _complaint(kind, namespace, name, source, unreadable)
    return Manifest(kind, api_version, namespace, name, source, decoded, raw)


def _misspelt_name(decode: Callable[[type[Any]], Any]) -> str:
    """What was written instead of the name, as the rest of a sentence; empty if nothing is like it."""
    fields, path, wanted = decode(dict), "", "metadata"
    if isinstance(fields.get(wanted), dict):
        fields, path, wanted = fields[wanted], "metadata.", "name"
    others = (key for key in fields if isinstance(key, str) and key != "namespace")
    written = next((key for key in others if possible((wanted,), key)), None)
    return f"; {path}{written}: unknown field; did you mean {path}{wanted}?" if written else ""


def _names_of_unknown(decode: Callable[[type[Any]], Any]) -> tuple[str, str | None]:
    try:
        metadata = decode(_UnreadObject).metadata
    except DecodeError:
        return "", None
    name = metadata.name if isinstance(metadata.name, str) else ""
    return name, metadata.namespace if isinstance(metadata.namespace, str) else None


def _undecoded(kind: str, source: Source, decode: Callable[[type[Any]], Any], text: str) -> ManifestError:
    name, given = _names_of_unknown(decode)
    namespace = None if kinds.is_cluster_scoped(kind) else given or DEFAULT_NAMESPACE
    return _complaint(kind, namespace, name, source, text)


def _complaint(kind: str, namespace: str | None, name: str, source: Source, text: str) -> ManifestError:
    if not name:
        return ManifestError(f"{source}: {kind}: {text}", source, kind, text)
    named = title(kind, namespace, name)
    return ManifestError(f"{source.file}: {named}: {text}", source, named, text)


# --- names ----------------------------------------------------------------------------------------


def _with_generated_name(manifest: Manifest, counts: dict[tuple[str, str | None, str], int]) -> Manifest:
    """What only has a generateName gets that and a number, so that it can be talked about."""
    view = manifest.object
    if manifest.name or view is None:
        return manifest
    prefix = view.metadata.generate_name or ""
    key = (manifest.kind, manifest.namespace, prefix)
    counts[key] = counts.get(key, -1) + 1
    name = f"{prefix}{counts[key]}"
    return _replace(manifest, name=name, object=replace(view, metadata=replace(view.metadata, name=name)))


def _once(manifest: Manifest, seen: dict[ManifestKey, Manifest]) -> _Entry:
    if manifest.object is not None:
        first = seen.setdefault(manifest.key, manifest)
        if first is not manifest:
            detail = f"is there twice: in {first.source} and in {manifest.source}"
            return DuplicateError(f"{manifest.title} {detail}", manifest.source, manifest.title, detail)
    return manifest
