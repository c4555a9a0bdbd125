"""What synchronous state machines say to the runners that run them, and to each other.

A machine takes events and gives back actions; it never awaits, reads a clock or touches the network.
A runner (`berth.live.runner`, a test, a simulator) feeds it and performs what it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.objects import Key, RawObject, key_of
from berth.kube.well_known import MERGE_PATCH

_T = TypeVar("_T")


# --- what happened ----------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True):
    """One object came, changed or went; `object` is the view the runner decodes the resource to."""

    resource: Resource
    change: str
    object: Any
    old: Any = None

    @property
    def key(self) -> Key:
        return key_of(self.object.metadata)


# --- what to do -------------------------------------------------------------------------------


class Purpose(Enum):
    """What a request is for. A machine subclasses it if the class of its actions does not say enough."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something to ask of the API server."""

    resource: Resource
    key: Key  # the object the machine does it for
    # Namespace and name of the object that is asked for, if that is not `key`. The name is empty if the
    # object is new and the server or the body names it.
    at: Key | None = None
    # What the machine recognizes the answer by; None where the class of the action is enough.
    purpose: Purpose | None = None
    attempt: int = 0  # the number of the attempt for that object: answers to older attempts are ignored
    why: str = ""  # in words, for people

    @property
    def namespace(self) -> str:
        return (self.at or self.key)[0]

    @property
    def name(self) -> str:
        return (self.at or self.key)[1]


class Get(Action, frozen=True, kw_only=True):
    pass


class Create(Action, frozen=True, kw_only=True):
    body: RawObject
    subresource: str = ""


class Update(Action, frozen=True, kw_only=True):
    body: RawObject
    subresource: str = ""


class Patch(Action, frozen=True, kw_only=True):
    body: RawObject | list[RawObject]
    subresource: str = ""
    form: str = MERGE_PATCH


class Delete(Action, frozen=True, kw_only=True):
    """`uid` is a precondition; `grace` None leaves it to the object."""

    uid: str | None = None
    grace: int | None = None
    propagation: str | None = None


class DeleteAll(Action, frozen=True, kw_only=True):
    """Delete every object of the resource in the namespace."""


class Evict(Action, frozen=True, kw_only=True):
    """`uid` and `resource_version` are preconditions."""

    uid: str | None = None
    resource_version: str | None = None


class Bind(Action, frozen=True, kw_only=True):
    node: str
    uid: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What the API server answered to an action, at which time."""

    at: float
    code: int = 200  # the HTTP status; 0 if there was no answer at all
    reason: str = ""
    message: str = ""
    body: bytes = b""  # the object in the answer, undecoded
    retry_after: float | None = None  # seconds the server asks to wait
    details: Mapping[str, Any] = {}

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300

    @property
    def conflict(self) -> bool:
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def exists(self) -> bool:
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def missing(self) -> bool:
        return self.code == 404

    @property
    def busy(self) -> bool:
        """Whether the server is away or overloaded: the request may have been carried out all the same."""
        return self.code in (0, 429) or self.code >= 500

    def again(self, pause: float) -> float:
        """When to ask again: after `pause`, or after the server's Retry-After if that is longer."""
        return self.at + max(pause, self.retry_after or 0.0)

    def decode(self, view: type[_T]) -> _T:
        return msgspec.json.decode(self.body, type=view)


class Machine(Protocol):
    """A state machine that a runner can run."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Resource, ...]: ...

    def handle(self, event: Event) -> None:
        """Take note of one object's change."""

    def reconcile(self, now: float) -> list[Action]:
        """What to do about it, at most once a key at a time."""

    def done(self, action: Action, outcome: Outcome) -> None:
        """Take the outcome of an action."""

    def due(self) -> float | None:
        """When to call `reconcile` though nothing happens; None if there is no need."""


def expect(holds: object, what: str, about: object = None) -> None:
    """Raise unless an invariant holds; for the `validate` of machines, which tests call."""
    if not holds:
        raise AssertionError(what if about is None else f"{what}: {about}")


@runtime_checkable
class ConfirmingMachine(Protocol):
    """A machine that is asked once more when one of its requests is about to be sent."""

    def confirms(self, action: Action) -> bool:
        """Whether to send it. If not, the outcome is a conflict."""


@runtime_checkable
class DrainingMachine(Protocol):
    """A machine that has something to finish when it is told to end."""

    def drain(self) -> None:
        """Begin nothing new: from now on `due` and `reconcile` only finish what was begun."""


@runtime_checkable
class WakingMachine(Protocol):
    """A machine whose decisions may give others something to do though nothing that they watch changes."""

    @property
    def wakes(self) -> tuple[Machine, ...]: ...


# --- what one machine wants of another ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WantedMove:
    """A pod that should move though no rule demands it."""

    pod: str  # ``namespace/name``
    reason: str  # in words
    since: float  # when it was found


class MoveSource:
    """The pods that should move, asked for until the request is sent. This base class wants none."""

    @property
    def revision(self) -> int:
        """Grows when other moves than before are wanted."""
        return 0

    def wanted(self) -> Sequence[WantedMove]:
        """The moves that may be made now, the first of every group."""
        return ()

    def wants(self, pod: str) -> bool:
        """Whether a pod should still move, as the cluster is at this moment."""
        del pod
        return False

    def confirms(self, pod: str) -> bool:
        """The same, asked right before the eviction is sent; with a yes the move counts as under way."""
        return self.wants(pod)
