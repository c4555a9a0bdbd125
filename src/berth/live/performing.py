"""Actions as requests: what a machine asks for is asked of the API server."""

from __future__ import annotations

from collections.abc import Callable

from berth.live.client import Client
from berth.live.errors import ApiError, NotSent
from berth.machines.contract import (
    Action,
    Bind,
    Create,
    Delete,
    DeleteAll,
    Evict,
    Get,
    Outcome,
    Patch,
    Update,
)

Clock = Callable[[], float]


async def perform(
    client: Client, action: Action, clock: Clock, confirms: Callable[[Action], bool] | None = None
) -> Outcome:
    """Carry an action out; whatever happens is an outcome.

    What would change something waits while the client's fence is closed.

    Args:
        client: Who asks.
        action: What to ask for.
        clock: When the answer came.
        confirms: Asked when it is our turn: nothing is sent if it says no.
    """
    while True:
        ready, free = await _turn(client, action, waits=confirms is not None)
        if confirms is not None and not confirms(action):
            return Outcome(at=clock(), code=409, reason="Conflict", message="no longer meant")
        try:
            body = await _request(ready, action)
        except NotSent as error:
            if not free:
                return _failed(error, clock())
        except ApiError as error:
            return _failed(error, clock())
        else:
            return Outcome(at=clock(), body=body)


async def _turn(client: Client, action: Action, *, waits: bool) -> tuple[Client, bool]:
    """Who makes the request once it is its turn, and whether it may be made as far as is known."""
    ready = await client.turn(action.resource) if waits or client.fence is not None else client
    free = client.fence is None or isinstance(action, Get) or await client.fence.opened()
    return ready, free


def _failed(error: ApiError, now: float) -> Outcome:
    return Outcome(
        at=now,
        code=error.code,
        reason=error.reason,
        message=error.message,
        retry_after=error.retry_after,
        details=error.details,
    )


async def _request(client: Client, action: Action) -> bytes:  # noqa: PLR0911 - one line an action
    resource, namespace, name = action.resource, action.namespace, action.name
    match action:
        case Create():
            return await client.create(resource, action.body, namespace, name, action.subresource)
        case Update():
            return await client.update(resource, action.body, namespace, action.subresource)
        case Patch():
            return await client.patch(
                resource,
                name,
                action.body,
                namespace=namespace,
                subresource=action.subresource,
                form=action.form,
            )
        case Delete():
            return await client.delete(
                resource,
                name,
                namespace=namespace,
                uid=action.uid,
                resource_version=action.resource_version,
                grace=action.grace,
                propagation=action.propagation,
            )
        case DeleteAll():
            return await client.delete_all(resource, namespace)
        case Evict():
            return await client.evict(
                name,
                namespace,
                uid=action.uid,
                resource_version=action.resource_version,
                grace=action.grace,
            )
        case Bind():
            return await client.bind(name, namespace, action.node, uid=action.uid)
        case Get():
            return await client.get(resource, name, namespace)
    raise TypeError(action)
