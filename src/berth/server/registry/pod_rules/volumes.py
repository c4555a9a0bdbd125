"""The sources of a pod's volumes, of which each volume has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from berth.kube import names
from berth.kube.amounts.quantity import QuantityError, parse
from berth.kube.objects import RawObject
from berth.server.fields import mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import (
    FieldErrors,
    forbidden,
    has,
    invalid,
    numbered,
    one_of,
    required,
    subdomain,
)
from berth.server.registry.pod_rules import references
from berth.server.registry.pod_rules.containers import PULL_POLICIES

VolumeCheck = Callable[..., FieldErrors]  # of the path, the source and, if it is projected, the volume's path

_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_TWICE = "conflicting duplicate paths"


def _empty_dir(path: str, source: RawObject) -> FieldErrors:
    try:
        negative = parse(source.get("sizeLimit") or 0) < 0
    except QuantityError:
        return
    if negative:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(path: str, source: RawObject) -> FieldErrors:
    where = str(source.get("path") or "")
    if not where:
        yield required(f"{path}.path")
        return
    yield from checks.without_backsteps(f"{path}.path", where)
    yield from one_of(f"{path}.type", source.get("type") or "", _TYPES, needed=False)


def _keyed(name: str) -> VolumeCheck:
    """The keys of a ConfigMap or Secret that become files."""

    def check(path: str, source: RawObject, *_: object) -> FieldErrors:
        yield from has(path, source, name)
        yield from references.mode(f"{path}.defaultMode", source.get("defaultMode"))
        for at, item in numbered(f"{path}.items", mappings(source.get("items"))):
            yield from has(at, item, "key", "path")
            yield from checks.unreserved(f"{at}.path", str(item.get("path") or ""))
            yield from references.mode(f"{at}.mode", item.get("mode"))

    return check


def _downward(path: str, source: RawObject, *_: object) -> FieldErrors:
    yield from references.mode(f"{path}.defaultMode", source.get("defaultMode"))
    for item in mappings(source.get("items")):
        yield from references.file(path, item)


def _nfs(path: str, source: RawObject) -> FieldErrors:
    yield from has(path, source, "server", "path")
    where = str(source.get("path") or "")
    if not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must be an absolute path")


def _csi(path: str, source: RawObject) -> FieldErrors:
    yield from checks.name(
        f"{path}.driver", source.get("driver"), lambda text: names.dns_subdomain_errors(text.lower())
    )
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        yield from subdomain(f"{path}.nodePublishSecretRef.name", mapping(secret).get("name"))


def _ephemeral(path: str, source: RawObject) -> FieldErrors:
    if source.get("volumeClaimTemplate") is None:
        yield required(f"{path}.volumeClaimTemplate")


# --- projected ------------------------------------------------------------------------------------


def _projected(path: str, source: RawObject) -> FieldErrors:
    yield from references.mode(f"{path}.defaultMode", source.get("defaultMode"))
    seen: set[str] = set()
    for at, one in numbered(f"{path}.sources", mappings(source.get("sources"))):
        given = [name for name in _PROJECTIONS if one.get(name) is not None]
        for name in given:
            held = mapping(one[name])
            yield from _PROJECTIONS[name](f"{at}.{name}", held, path)
            for where in _paths(name, held):
                if where in seen:
                    yield invalid(path, held.get("name") or where, _TWICE)
                seen.add(where)
        if len(given) > 1:
            yield forbidden(at, "may not specify more than 1 volume type per source")


def _paths(name: str, source: RawObject) -> Iterator[str]:
    """The files that a source puts into a volume; those of a token may be others' as well."""
    if name == "clusterTrustBundle":
        yield str(source.get("path") or "")
    elif name != "serviceAccountToken":
        yield from (str(item["path"]) for item in mappings(source.get("items")) if item.get("path"))


def _token(path: str, source: RawObject, volume: str) -> FieldErrors:
    yield from checks.lifetime(f"{path}.expirationSeconds", source.get("expirationSeconds") or 0)
    yield from has(volume, source, "path")
    yield from checks.unreserved(f"{volume}.path", str(source.get("path") or ""))


def _bundle(path: str, source: RawObject, _: str) -> FieldErrors:
    name, signer = source.get("name"), source.get("signerName")
    if name is None and signer is None:
        yield required(path, "either name or signerName must be specified")
    yield from has(path, source, "path")
    yield from checks.unreserved(f"{path}.path", str(source.get("path") or ""))


_PROJECTIONS: dict[str, VolumeCheck] = {
    "secret": _keyed("name"),
    "configMap": _keyed("name"),
    "downwardAPI": _downward,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _bundle,
    "podCertificate": lambda *_: iter(()),
}


def _needs(*fields: str) -> VolumeCheck:
    return lambda path, source: has(path, source, *fields)


_SOURCES: dict[str, VolumeCheck] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _needs("repository"),
    "gcePersistentDisk": _needs("pdName"),
    "awsElasticBlockStore": _needs("volumeID"),
    "secret": _keyed("secretName"),
    "nfs": _nfs,
    "iscsi": _needs("targetPortal", "iqn"),
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _needs(),
    "persistentVolumeClaim": _needs(),  # its name is asked for wherever pods are read
    "rbd": _needs("monitors", "image"),
    "cinder": _needs("volumeID"),
    "cephfs": _needs("monitors"),
    "quobyte": _needs("registry", "volume"),
    "downwardAPI": _downward,
    "fc": _needs(),
    "flexVolume": _needs("driver"),
    "configMap": _keyed("name"),
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _needs("diskName", "diskURI"),
    "storageos": _needs("volumeName"),
    "projected": _projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": lambda path, source: one_of(f"{path}.pullPolicy", source.get("pullPolicy"), PULL_POLICIES),
}


def volume_errors(path: str, volume: RawObject) -> FieldErrors:
    """What is wrong with where a volume comes from."""
    return references.one_type(path, volume, _SOURCES, "volume")
