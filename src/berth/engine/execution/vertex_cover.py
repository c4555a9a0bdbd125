"""Which vertices of a graph to give up so that no edge is left between those that stay.

Vertices are numbered from the one that goes most willingly to the one that stays first of all, and
sets of them are integers, one bit a vertex.  Every vertex has a level, which never falls with its number:
no vertex goes if vertices of lower levels can go in its stead, however many; with equal levels, the
fewest go, and of equally small sets that whose highest number is lowest.

A vertex of a component's top level without neighbours there stays, and its neighbours go: exact at any size.
What is left is searched through if it has up to `EXACT_UP_TO` vertices.  Of larger components the top level
is thinned out greedily, always the vertex with most neighbours, which is still the best for cliques; then
those who need not have gone return.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

EXACT_UP_TO = 24


def least_cover(adjacency: Sequence[int], levels: Sequence[int]) -> int:
    """The vertices to give up, by the neighbours and the level of each."""
    going = 0
    parts = [(1 << len(adjacency)) - 1]
    while parts:
        for component in _components(adjacency, parts.pop()):
            highest = levels[component.bit_length() - 1]
            top = sum(1 << v for v in bits(component) if levels[v] == highest)
            staying = sum(1 << v for v in bits(top) if not adjacency[v] & top)
            if not staying:
                if component.bit_count() <= EXACT_UP_TO:
                    going |= _exact(adjacency, levels, component)
                    continue
                staying = top & ~_thinned(adjacency, top)
                going |= top & ~staying
                component &= ~top | staying  # noqa: PLW2901 - what is decided is cut off
            forced = _neighbours(adjacency, staying) & component
            going |= forced
            parts.append(component & ~staying & ~forced)
    return going


def bits(vertices: int) -> Iterator[int]:
    while vertices:
        lowest = vertices & -vertices
        yield lowest.bit_length() - 1
        vertices ^= lowest


def _neighbours(adjacency: Sequence[int], vertices: int) -> int:
    found = 0
    for vertex in bits(vertices):
        found |= adjacency[vertex]
    return found


def _components(adjacency: Sequence[int], vertices: int) -> Iterator[int]:
    """The connected parts among these vertices, without those that have no neighbours."""
    while vertices:
        component = reached = vertices & -vertices
        while reached:
            reached = _neighbours(adjacency, reached) & vertices & ~component
            component |= reached
        vertices &= ~component
        if component & (component - 1):
            yield component


def _thinned(adjacency: Sequence[int], vertices: int) -> int:
    """Those of these vertices to give up so that the others are no neighbours; not always the fewest."""
    numbers = list(bits(vertices))
    width = (vertices.bit_length() + 7) // 8
    rows = b"".join((adjacency[v] & vertices).to_bytes(width, "little") for v in numbers)
    matrix = np.frombuffer(rows, dtype=np.uint8).reshape(len(numbers), width)
    linked = np.unpackbits(matrix, axis=1, bitorder="little")[:, numbers].astype(np.int32)
    degree = linked.sum(axis=0)
    going = 0
    while degree.max() > 0:
        # Of equals the first, which is the one that goes most willingly.
        taken = int(degree.argmax())
        going |= 1 << numbers[taken]
        degree -= linked[taken]
        degree[taken] = -len(numbers)
    for vertex in reversed(numbers):
        if going >> vertex & 1 and not adjacency[vertex] & vertices & ~going:
            going ^= 1 << vertex
    return going


def _exact(adjacency: Sequence[int], levels: Sequence[int], component: int) -> int:
    numbers = list(bits(component))
    place = {vertex: i for i, vertex in enumerate(numbers)}
    links = [sum(1 << place[other] for other in bits(adjacency[v] & component)) for v in numbers]
    ranks = {level: rank for rank, level in enumerate(sorted({levels[v] for v in numbers}))}
    # A vertex weighs more than all vertices of lower levels together.  Within a level the number of vertices
    # decides, and among covers of the same size the lower numbers.
    weights = [
        ((len(numbers) + 1) ** ranks[levels[vertex]] << len(numbers)) + (1 << i)
        for i, vertex in enumerate(numbers)
    ]
    search = _Search(links, weights)
    search.run((1 << len(numbers)) - 1, 0, 0)
    return sum(1 << numbers[i] for i in bits(search.best))


class _Search:
    """Branch and bound: the vertex with most neighbours goes, or stays and all its neighbours go."""

    def __init__(self, links: Sequence[int], weights: Sequence[int]) -> None:
        self._links = links
        self._weights = weights
        self.best = (1 << len(links)) - 1
        self._cost = sum(weights)

    def run(self, left: int, going: int, cost: int) -> None:
        links = self._links
        bound, free = cost, left
        busiest, most = 0, 0
        for vertex in bits(left):
            others = links[vertex] & left
            if others.bit_count() > most:
                busiest, most = vertex, others.bit_count()
            # Of the ends of edges that share no vertex, one each has to go.
            if free >> vertex & 1 and (partners := others & free):
                partner = (partners & -partners).bit_length() - 1
                free &= ~(1 << vertex | 1 << partner)
                bound += min(self._weights[vertex], self._weights[partner])
        if bound >= self._cost:
            return
        if not most:
            self.best, self._cost = going, cost
            return
        left &= ~(1 << busiest)
        others = links[busiest] & left
        added = sum(self._weights[vertex] for vertex in bits(others))
        self.run(left & ~others, going | others, cost + added)
        self.run(left, going | 1 << busiest, cost + self._weights[busiest])
