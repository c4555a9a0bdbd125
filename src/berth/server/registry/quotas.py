"""Quotas: nothing is stored that goes beyond one, and what is used is counted with every write.

Upstream has a controller that counts, and admission that counts what was admitted since. Here both are one: a
quota is asked and charged in the turn in which the object is proposed, and in the same transaction, so that
neither concurrent creates nor a loss of power make it wrong. What an object uses less of is given back in
the same way. All is counted again when a quota appears or is written to, when the server starts, and for
pods that are held up in their deletion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.amounts.resource_lists import Amounts, difference, masked
from berth.kube.objects import Key, Node, Pod, RawObject
from berth.kube.quota import charging
from berth.kube.quota.exclusive import EXCLUSIVE_NAMES, exclusion_of
from berth.kube.quota.usage import PODS, QuotaEvaluator, evaluator_of, held_until, is_over
from berth.server import errors
from berth.server.fields import mapping
from berth.server.registry.checks import decode_as
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.storage.bucket import Bucket, Record, decode

_QUOTAS = "resourcequotas"
_LEAVING = b'"deletionTimestamp"'
_RECENT = 60.0  # seconds: whoever looks more often has counted again without what is longer held up
# What a pod with anti-affinity has: the field, or the annotation, which may spell the field as it likes.
_KEEPS_APART = (b"podAntiAffinity", AFFINITY_ANNOTATION.encode())


def charge(
    registry: Registry, endpoint: Endpoint, key: Key, new: RawObject | None, *, is_admitted: bool = False
) -> Callable[[], None]:
    """Ask the quotas of a namespace; what is returned charges them, once the write itself is proposed.

    `new` is what becomes of the object, None if it goes. Quotas may refuse it only if it `is_admitted`; what
    happens to an object later they only count.

    Raises:
        StatusError: a quota has not enough left, or has to know more (403).
    """
    bucket = registry.bucket(_QUOTAS)
    if not bucket.records and not bucket.queued:
        return lambda: None
    records = bucket.newest_in(key[0])
    resource = endpoint.resource
    evaluator = evaluator_of(resource.group, resource.plural) if resource.namespaced else None
    if not records or evaluator is None:
        return lambda: None
    known = endpoint.bucket.newest(key)
    before = evaluator.look(decode(known.data)) if known is not None else None
    after = evaluator.look(new) if new is not None else None
    now = time.time()
    if isinstance(before, Pod) and is_over(before, now) and held_until(before) is not None:
        return lambda: recount(registry, key[0])  # it may have been given back before its time
    admits = is_admitted and (before is None or evaluator.may_grow(after, before))
    changed = []
    for record in records:
        quota = _ready(registry, evaluator, record)
        exclusive = _exclusive_change(registry, key, quota, (before, after))
        wanted = charging.change(quota, evaluator, before, after, now)
        try:
            if admits:
                charging.check_stated(quota, evaluator, after)
            may_refuse = is_admitted or _closes_more(before, after)
            charging.check_room(quota, {**(wanted if admits else {}), **(exclusive if may_refuse else {})})
        except charging.QuotaError as error:
            name = (new or {})["metadata"].get("name") or ""
            raise errors.forbidden(resource, name, str(error)) from None
        status = charging.charged(quota, {**wanted, **exclusive})
        if status is not None:
            changed.append((record.key, {**quota, "status": status}))

    def settle() -> None:
        for own_key, quota in changed:
            # A quota that is itself what is written has a new state already, and is counted after it.
            if endpoint.bucket is not bucket or own_key != key:
                registry.store.put(bucket, own_key, quota)

    return settle


def _ready(registry: Registry, evaluator: QuotaEvaluator, record: Record) -> RawObject:
    """A quota in which everything is counted that objects of this kind use."""
    quota = decode(record.data)
    names = [*evaluator.matching(charging.limits_of(quota)), *_exclusive_names(quota)]
    if not charging.used_of(quota).keys() >= set(names):
        status = _status(registry, quota)
        return {**quota, "status": status} if status is not None else quota
    return quota


def recount(registry: Registry, namespace: str = "") -> None:
    """Count what is used in a namespace, or in all, and correct what quotas say of it."""
    for record in registry.bucket(_QUOTAS).newest_in(namespace):
        quota = decode(record.data)
        _put_status(registry, record, quota, _status(registry, quota))


def _put_status(registry: Registry, record: Record, quota: RawObject, status: RawObject | None) -> None:
    if status is not None:
        registry.store.put(registry.bucket(_QUOTAS), record.key, {**quota, "status": status})


def release(registry: Registry, now: float) -> None:
    """Give back what pods hold that should have gone by now, and follow the nodes that pods block."""
    bucket = registry.bucket(_QUOTAS)
    for record in bucket.newest_in(""):
        quota = decode(record.data)
        if _exclusive_names(quota):
            changed = difference(exclusive_use(registry, quota), charging.used_of(quota))
            _put_status(registry, record, quota, charging.charged(quota, changed))
    for namespace in sorted({key[0] for key in bucket.keys}):
        leaving = (
            held_until(PODS.look(decode(record.data)))
            for record in registry.bucket("pods").in_namespace(namespace)
            if _LEAVING in record.data
        )
        if any(until is not None and now - _RECENT < until < now for until in leaving):
            recount(registry, namespace)


def _status(registry: Registry, quota: RawObject) -> RawObject | None:
    namespace = quota["metadata"]["namespace"]
    contents = {
        evaluator: [evaluator.look(decode(record.data)) for record in bucket.newest_in(namespace)]
        for evaluator, bucket in _counted_in(registry, mapping(quota, "spec", "hard"))
    }
    exclusive = exclusive_use(registry, quota) if _exclusive_names(quota) else None
    return charging.counted(quota, contents, time.time(), exclusive)


def _counted_in(registry: Registry, hard: RawObject) -> Iterator[tuple[QuotaEvaluator, Bucket]]:
    """The evaluators that a quota needs, and where the objects are."""
    seen = set()
    for endpoint in registry.endpoints():
        resource = endpoint.resource
        evaluator = evaluator_of(resource.group, resource.plural)
        if not (resource.namespaced and resource.stored) or evaluator is None or evaluator in seen:
            continue
        seen.add(evaluator)
        if evaluator.matching(hard):
            yield evaluator, endpoint.bucket


# --- domains that pods keep for themselves


def _exclusive_names(quota: RawObject) -> list[str]:
    return [name for name in EXCLUSIVE_NAMES if name in mapping(quota, "spec", "hard")]


def _exclusive_change(registry: Registry, key: Key, quota: RawObject, pods: tuple[object, object]) -> Amounts:
    """By how much the nodes that are blocked change with a pod."""
    excludes = any(isinstance(pod, Pod) and exclusion_of(pod) is not None for pod in pods)
    if not excludes or not _exclusive_names(quota):
        return {}
    others = exclusive_use(registry, quota, (key, None))
    before, after = (others if pod is None else exclusive_use(registry, quota, (key, pod)) for pod in pods)
    if after == before:
        return {}
    # Nodes may have changed since the last count, which is in the status.
    return masked(difference(after, charging.used_of(quota)), _exclusive_names(quota))


def _closes_more(before: object, after: object) -> bool:
    """Whether a pod that is there has new rules that close a domain, in whatever way it was written to."""
    if not isinstance(before, Pod) or not isinstance(after, Pod):
        return False
    known, new = exclusion_of(before), exclusion_of(after)
    return new is not None and not set(new.rules) <= set(known.rules if known is not None else ())


def exclusive_use(registry: Registry, quota: RawObject, besides: tuple[Key, object] | None = None) -> Amounts:
    """What the pods of a quota's namespace keep for themselves.

    `besides`: a pod that is to be judged as this instead of as it is stored, or as if it were not there.
    """
    now = time.time()
    found: list[Any] = [besides[1]] if besides is not None and besides[1] is not None else []
    found += (
        PODS.look(decode(record.data))
        for record in registry.bucket("pods").newest_in(quota["metadata"]["namespace"])
        if (besides is None or record.key != besides[0]) and any(word in record.data for word in _KEEPS_APART)
    )
    counted = (pod for pod in found if not is_over(pod, now) and charging.is_about(quota, PODS, pod))
    _look_around(registry)
    return registry.exclusive.cost(each for each in map(exclusion_of, counted) if each is not None).amounts()


def _look_around(registry: Registry) -> None:
    """Know the nodes and namespaces that there are."""
    nodes, spaces = (
        {record.key[1]: record for record in registry.bucket(plural).newest_in("")}
        for plural in ("nodes", "namespaces")
    )
    versions = {name: str(record.rv) for name, record in nodes.items()}
    registry.exclusive.nodes.keep(versions, lambda name: decode_as(decode(nodes[name].data), Node))
    registry.exclusive.neighbours.keep({name: record.labels for name, record in spaces.items()})
