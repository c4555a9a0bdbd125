"""A resource (`ServedResource`), its kind's rules (`Strategy`), both as they are served (`Endpoint`), and all
that are (`Registry`).

Upstream: apiserver/pkg/registry/rest. A resource is only facts about addressing; what an object may contain
is told by :mod:`berth.kube.schema`. A kind overrides what it has rules of its own for; the generic code
of :mod:`~berth.server.registry.writes` and :mod:`~berth.server.registry.deletion` asks the strategy and
knows no kind by its name. The classes are one module because each of them speaks of the others.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, NamedTuple

from berth.kube import names
from berth.kube.affinity.anti_affinity import DEFAULT_POLICY, AdmissionPolicy
from berth.kube.api_resources import Resource
from berth.kube.gates import FeatureGates
from berth.kube.manifests import kinds
from berth.kube.objects import Key, ObjectMeta, RawObject
from berth.kube.quota.exclusive import ExclusiveDomains
from berth.kube.schema import Schema, SchemaRegistry
from berth.kube.times import stamp
from berth.kube.validation.errors import Errors, FieldError
from berth.kube.validation.metadata import check_metadata
from berth.kube.validation.objects import validate
from berth.kube.validation.placement import validate_annotated
from berth.kube.versions import KubernetesVersion
from berth.kube.workloads.stored_templates import fill
from berth.server import errors
from berth.server.credentials import TokenSigner
from berth.server.fields import items, mapping, mappings
from berth.server.patch import STATUS_METADATA, reset_fields
from berth.server.patch.fieldset import KeyPath
from berth.server.registry.checks import decode_as, unchanged
from berth.server.registry.users import Intent, User
from berth.server.storage.bucket import Bucket, Fields, Record, decode, encode, no_fields
from berth.server.storage.store import Store
from berth.server.tables import CREATED_AT, NAME, Column

# What a client gets to read, and what to wait for before it does.
WriteAnswer = tuple[RawObject, asyncio.Future[None] | None]
Convert = Callable[[RawObject], RawObject]
GroupVersionResource = tuple[str, str, str]
# The replica paths of the scale subresource: in the spec, in the status, and the selector's.
ScalePaths = tuple[str, str, str]
STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)


class ServedResource(Resource, frozen=True, kw_only=True):
    """One resource of one version of an API group."""

    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = STANDARD_VERBS

    @property
    def gvk(self) -> tuple[str, str, str]:
        return (self.group, self.version, self.kind)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def stored(self) -> bool:
        """Whether objects can be read back; reviews and bindings are only ever created."""
        return "get" in self.verbs

    @property
    def root(self) -> str:
        """The path of the group version, such as ``/api/v1`` or ``/apis/apps/v1``."""
        return self.path().rpartition("/")[0]


class Subresource(NamedTuple):
    """What a subresource accepts or answers; an empty kind stands for the resource's own."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""
    older: str = ""  # an API version in which the kind is the same


SUBRESOURCES = {
    "binding": Subresource(("create",), "", "v1", "Binding"),
    "eviction": Subresource(("create",), "policy", "v1", "Eviction", "policy/v1beta1"),
    "finalize": Subresource(("update",)),
    "attach": Subresource(("create", "get")),
    "exec": Subresource(("create", "get")),
    "log": Subresource(("get",)),
    "portforward": Subresource(("create", "get")),
    "scale": Subresource(("get", "patch", "update"), "autoscaling", "v1", "Scale"),
    "token": Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    "status": Subresource(("get", "patch", "update")),
}


def served(
    group_version: str,
    kind: str,
    *,
    namespaced: bool = True,
    short: str = "",
    categories: str = "",
    subresources: str = "",
    verbs: tuple[str, ...] = STANDARD_VERBS,
) -> ServedResource:
    """A built-in resource; several short names, categories or subresources are separated by spaces."""
    group, _, version = group_version.rpartition("/")
    return ServedResource(
        group=group,
        version=version,
        plural=plural_of(kind),
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        subresources=frozenset(subresources.split()),
        verbs=verbs,
    )


def plural_of(kind: str) -> str:
    """As upstream guesses it (apimachinery's UnsafeGuessKindToResource)."""
    name = kind.lower()
    if name.endswith("s"):
        return name if name == "endpoints" else f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def from_crd(crd: dict[str, object]) -> tuple[ServedResource, ...]:
    """The resources a CustomResourceDefinition asks to have served, one for each served version."""
    spec = mapping(crd, "spec")
    names = mapping(spec, "names")
    kind = str(names.get("kind", ""))
    return tuple(
        ServedResource(
            group=str(spec.get("group", "")),
            version=str(version.get("name", "")),
            plural=str(names.get("plural", "")),
            singular=str(names.get("singular") or kind.lower()),
            kind=kind,
            namespaced=spec.get("scope") == "Namespaced",
            short_names=tuple(items(names, "shortNames")),
            categories=tuple(items(names, "categories")),
            subresources=frozenset(mapping(version, "subresources")) & {"status", "scale"},
        )
        for version in mappings(spec, "versions")
        if version.get("served")
    )


@dataclass(eq=False)
class Strategy:
    """The facts and rules of one kind: facts are fields, rules are methods."""

    custom: ClassVar[bool] = False  # defined by a CustomResourceDefinition

    resource: ServedResource
    _: KW_ONLY
    columns: tuple[Column, ...] = (NAME, CREATED_AT)  # of its table
    fields: Fields = no_fields  # what a field selector may name beside the metadata
    field_aliases: Mapping[str, str] = field(default_factory=dict)
    name_errors: Callable[[str], list[str]] = names.dns_subdomain_errors
    scale_paths: ScalePaths = (".spec.replicas", ".status.replicas", ".spec.selector")
    plain_selector: bool = False  # the selector is labels, not a LabelSelector
    defaults: RawObject = field(default_factory=dict)  # of what an object leaves out
    first_status: RawObject = field(default_factory=dict)  # of a new object, whatever the client said
    frozen: tuple[str, ...] = ()  # what no update changes, as paths
    generation: bool = True  # changes of the spec are counted
    status_apart: bool = True  # where there is a status subresource, nothing else writes the status
    status_on_create: bool = False  # a new object may bring its status along
    status_metadata: tuple[str, ...] = STATUS_METADATA  # what a write to the status takes of the metadata
    needs_version: bool = False  # no update without a resourceVersion
    create_on_update: bool = False  # an update of what is not there creates it
    returns_deleted: bool = False  # deleting answers with the object instead of a Status
    # What is told a client that deletes without saying what becomes of dependents, which are then kept.
    orphans_warning: str = ""
    weight: int = 1  # how much longer than for other kinds validation takes
    deprecated: str = ""  # what clients are told of the kind with every answer
    stored_as: GroupVersionResource | None = None  # another resource keeps the objects, see `to_stored`
    converted: Convert | None = None  # makes what a server of another version stored what this one does

    def __post_init__(self) -> None:
        self.status_apart = self.status_apart and "status" in self.resource.subresources
        self._view = None if self.custom else kinds.view_of(self.resource.api_version, self.resource.kind)

    def is_served(self, version: KubernetesVersion) -> bool:
        """Whether a server of this version of Kubernetes has the resource."""
        return True

    # --- creating and updating, in this order

    def begin_status(self, obj: RawObject) -> None:
        """Set the status of a new object."""
        obj["status"] = copy.deepcopy(self.first_status)

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        """Admit an object in place, and return what is wrong with it; `old` is None if it is new."""
        self.prepare(registry, obj, old)
        found = self.validate(obj, registry.gates)
        return [*found, *(self.validate_create(obj) if old is None else self.validate_update(obj, old))]

    def prepare_input(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        """Drop fields of features that are off and fill in defaults, in place."""
        self.default(obj)

    def default(self, obj: RawObject) -> None:
        """Fill in what every version of the API server fills in; looks at nothing but the object."""
        fill(obj, **copy.deepcopy(self.defaults))

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        """Fill in what depends on other objects or on what the object was before."""

    def validate(self, obj: RawObject, gates: FeatureGates) -> list[FieldError]:
        """What is wrong with an object by itself."""
        return [*self._validate_form(obj, gates), *self.check(obj), *self._validate_annotations(obj)]

    def _validate_annotations(self, obj: RawObject) -> Iterable[FieldError]:
        return validate_annotated(obj["metadata"].get("annotations"))

    def _validate_form(self, obj: RawObject, gates: FeatureGates) -> Iterable[FieldError]:
        if self._view is not None:
            return validate(decode_as(obj, self._view), gates)
        found = Errors()
        metadata = decode_as(obj["metadata"], ObjectMeta)
        check_metadata(metadata, found, namespaced=self.resource.namespaced, name_check=self.name_errors)
        return found

    def check(self, obj: RawObject) -> Iterable[FieldError]:
        """The kind's own part of `validate`."""
        return ()

    def validate_create(self, obj: RawObject) -> Iterable[FieldError]:
        """What only a new object is asked."""
        return ()

    def validate_update(self, obj: RawObject, old: RawObject) -> Iterable[FieldError]:
        """What an update may not change beside metadata."""
        return [found for path in self.frozen for found in unchanged(obj, old, *path.split("."))]

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> Iterable[FieldError]:
        """Normalize what was written to a subresource, and return what is wrong with it."""
        return ()

    def reset_fields(self, subresource: str) -> tuple[KeyPath, ...]:
        """What a write to this endpoint cannot set, so that nobody gets to own it there."""
        return reset_fields(subresource, status_apart=self.status_apart, taken=self.status_metadata)

    def authorize_write(self, registry: Registry, obj: RawObject, old: RawObject | None, user: User) -> None:
        """Raise a StatusError if the user may not write an object that is valid."""

    def final_admission(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        """Raise a StatusError if a valid object may not be stored; if it is new, no other has its name."""

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        """What follows once a new state is proposed."""

    # --- deleting

    def check_delete(self, obj: RawObject) -> None:
        """Raise a StatusError if an object may not be deleted."""

    def before_delete(self, registry: Registry, obj: RawObject) -> None:
        """What is done about what belongs to an object, which may change what it has to wait for."""

    def grace(self, obj: RawObject, options: RawObject) -> int:
        """Seconds an object has left once it is to be deleted."""
        return 0

    def has_content(self, obj: RawObject) -> bool:
        """Whether an object that is being deleted waits for more than its finalizers."""
        return False

    def mark_deleted(self, obj: RawObject) -> None:
        """What an object says of itself while it is being deleted, beside its metadata."""

    def after_remove(self, registry: Registry, endpoint: Endpoint, obj: RawObject) -> None:
        """What follows once the removal is proposed: whatever waited for the object to go."""

    # --- what some kinds have

    def answer(self, registry: Registry, obj: RawObject, key: Key, intent: Intent) -> WriteAnswer:
        """The answer to an object that is created but not stored, perhaps at a subresource of `key`."""
        raise errors.method_not_allowed()

    def connect(self, obj: RawObject, subresource: str, query: Mapping[str, str]) -> bytes:
        """The text that a subresource without objects answers with."""
        raise errors.method_not_allowed()

    def to_stored(self, obj: RawObject) -> RawObject:
        """The object as the resource that keeps it (`stored_as`) has it."""
        return obj

    def from_stored(self, obj: RawObject) -> RawObject:
        return obj


@dataclass(frozen=True, slots=True)
class Credentials:
    """The token of administrators, the signer of other tokens, and the certificate authority."""

    token: str = field(repr=False)
    signer: TokenSigner
    ca: str


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A resource as it is served under one version.

    One bucket may be served by several: an Event is one object in two API groups, and a custom resource
    has an endpoint for every version.
    """

    resource: ServedResource
    strategy: Strategy
    bucket: Bucket
    schema: Schema | None
    show: Convert | None = None  # from the stored to the served version; None if they are the same
    keeper: Endpoint | None = None  # the one whose version is the stored one, unless it is this

    def data(self, record: Record) -> bytes:
        """The object of a record, encoded in this version."""
        return record.data if self.show is None else encode(self.object(record))

    def object(self, record: Record) -> RawObject:
        obj = decode(record.data)
        return obj if self.show is None else self.show(obj)


class Registry:
    """Which resources are served now, where their objects are kept, and the clock they are stamped by."""

    def __init__(
        self,
        store: Store,
        strategies: Iterable[Strategy],
        custom: Callable[[ServedResource, RawObject, Schema | None], Strategy],
        *,
        gates: FeatureGates,
        credentials: Credentials,
        policy: AdmissionPolicy = DEFAULT_POLICY,
        exclusive: ExclusiveDomains | None = None,
    ) -> None:
        self.store = store
        self.schemas = SchemaRegistry()
        self.gates = gates
        self.token = credentials.token  # whoever bears it may do everything
        self.signer = credentials.signer  # of the tokens of service accounts
        self.ca = credentials.ca  # who vouches for the server, as PEM
        self.version = 0  # grows whenever what is served changes
        self.policy = policy  # who may have which required anti-affinity
        self.exclusive = exclusive or ExclusiveDomains()  # as of the last time that somebody looked
        self._strategy_of_custom = custom
        self._builtin: dict[GroupVersionResource, Endpoint] = {}
        self._custom: dict[GroupVersionResource, Endpoint] = {}
        for strategy in strategies:
            self._serve(strategy)

    def _serve(self, strategy: Strategy) -> None:
        resource = strategy.resource
        keeper = self._builtin[strategy.stored_as] if strategy.stored_as is not None else None
        bucket = keeper.bucket if keeper is not None else self.store.bucket(resource.name)
        show = strategy.from_stored if keeper is not None else None
        endpoint = Endpoint(resource, strategy, bucket, self.schemas.for_kind(*resource.gvk), show, keeper)
        self._builtin[resource.group, resource.version, resource.plural] = endpoint

    def lookup(self, group: str, version: str, plural: str) -> Endpoint | None:
        key = (group, version, plural)
        return self._builtin.get(key) or self._custom.get(key)

    def builtin(self, group: str, plural: str, version: str = "v1") -> Endpoint:
        return self._builtin[group, version, plural]

    def bucket(self, plural: str, group: str = "") -> Bucket:
        """Where the objects of a built-in resource are kept."""
        return self.builtin(group, plural).bucket

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (*self._builtin.values(), *self._custom.values())

    def resources(self) -> tuple[ServedResource, ...]:
        return tuple(endpoint.resource for endpoint in self.endpoints())

    def timestamp(self) -> str:
        return stamp(time.time())

    def new_uid(self) -> str:
        """Made up without asking the system for chance, which takes longer: it is no secret."""
        return str(uuid.UUID(int=random.getrandbits(128), version=4))

    # --- custom resources

    def serve_crd(self, crd: RawObject) -> None:
        """Serve what a definition asks for, instead of what an earlier state of it asked for."""
        self._drop(crd["metadata"]["name"])
        self.schemas.add_crd(crd)
        resources = from_crd(crd)
        for resource in resources:
            schema = self.schemas.for_kind(*resource.gvk)
            strategy = self._strategy_of_custom(resource, crd, schema)
            bucket = self.store.bucket(resource.name)
            bucket.fields = strategy.fields
            show = strategy.from_stored if len(resources) > 1 else None
            endpoint = Endpoint(resource, strategy, bucket, schema, show)
            self._custom[resource.group, resource.version, resource.plural] = endpoint
        self.version += 1

    def remove_crd(self, crd: RawObject) -> None:
        self.schemas.remove_crd(crd)
        self._drop(crd["metadata"]["name"])
        self.version += 1

    def endpoints_of_crd(self, name: str) -> list[Endpoint]:
        """One for each version; a definition has the name of the resource."""
        return [endpoint for endpoint in self._custom.values() if endpoint.resource.name == name]

    def _drop(self, name: str) -> None:
        self._custom = {key: each for key, each in self._custom.items() if each.resource.name != name}
