"""Dividing replicas by weight: the Webster (Sainte-Laguë) method, as Karmada applies it.

Replicas are given out one by one, each to the cluster with the greatest ``weight / (2 * replicas + 1)``
in 64-bit floating point.  Of equals the one with fewer replicas is next, then the one whose name comes
first, or last if the FNV-1a hash of the resource's UID is odd.

What a cluster is given comes in falling order of that quotient, so the replicas given out are a prefix
of all quotients in order.  :func:`divide` guesses the quotient at which the prefix ends, counts, and
sorts only the few that lie about the end.
"""

from __future__ import annotations

import numpy as np

from berth.engine.state.columns import FloatArray, IndexArray, Int64Array

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def last_name_first(uid: str) -> bool:
    """Whether ties of the resource with this UID go to the last name instead of the first."""
    digest = _FNV_OFFSET
    for byte in uid.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return bool(uid) and digest & 1 == 1


def divide(replicas: int, weights: Int64Array, name_ranks: Int64Array, uid: str) -> Int64Array:
    """The share of each cluster. All are 0 if no cluster has a weight."""
    shares = np.zeros(len(weights), dtype=np.int64)
    weighty = np.flatnonzero(weights > 0)
    if replicas <= 0 or not len(weighty):
        return shares
    votes = weights[weighty].astype(np.float64)
    # The quotient at the end if all remainders cancel out: it rounds every quota to the nearest integer.
    end = float(votes.sum()) / (2 * replicas)
    seats = _seats(votes, end)
    surplus = int(seats.sum()) - replicas
    if surplus:
        lower, upper = _bracket(votes, seats, surplus)
        ranks = name_ranks[weighty]
        ranks = -ranks if last_name_first(uid) else ranks
        seats = _first_between(lower, upper, votes, ranks, replicas - int(lower.sum()))
    shares[weighty] = seats
    return shares


def _bracket(votes: FloatArray, seats: Int64Array, surplus: int) -> tuple[Int64Array, Int64Array]:
    """What each cluster has at least and at most, when `seats` are so many too many (or, negative, too few).

    Rounding to the nearest is off by half a replica a cluster at most, so there are that many to choose from.
    """
    if surplus > 0:
        last = np.where(seats > 0, _quotient(votes, seats - 1), np.inf)
        end = np.partition(last, surplus - 1)[surplus - 1]
        return _seats(votes, float(np.nextafter(end, np.inf))), seats
    nearest = _quotient(votes, seats)
    end = np.partition(nearest, surplus)[surplus]
    return seats, _seats(votes, float(end))


def _first_between(
    lower: Int64Array, upper: Int64Array, votes: FloatArray, ranks: Int64Array, number: int
) -> Int64Array:
    """`lower`, and the `number` next replicas given out up to `upper`."""
    extra = upper - lower
    owners = np.repeat(np.arange(len(votes)), extra)
    nth: IndexArray = np.arange(len(owners)) - np.repeat(np.cumsum(extra) - extra, extra)
    having = lower[owners] + nth
    first = np.lexsort((ranks[owners], having, -_quotient(votes[owners], having)))[:number]
    return lower + np.bincount(owners[first], minlength=len(votes))


def _quotient(votes: FloatArray, seats: Int64Array) -> FloatArray:
    return votes / (2 * seats + 1)


def _seats(votes: FloatArray, end: float) -> Int64Array:
    """How many quotients of each cluster are at least `end`."""
    seats = ((votes / end + 1) / 2).astype(np.int64)
    # Rounding may have put one that is next to the end on the wrong side.
    while (short := _quotient(votes, seats) >= end).any():
        seats += short
    while (over := (seats > 0) & (_quotient(votes, seats - 1) < end)).any():
        seats -= over
    return seats
