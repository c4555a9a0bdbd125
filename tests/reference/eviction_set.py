"""Who has to go: every set of pods is tried, and the best of those that heal everything is taken."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations

Edge = tuple[str, str]


def subsets(things: Sequence[str]) -> Iterator[frozenset[str]]:
    sets = chain.from_iterable(combinations(things, size) for size in range(len(things) + 1))
    return map(frozenset, sets)


def best_parting(pods: Sequence[str], edges: Iterable[Edge], rank: Callable[[str], object]) -> frozenset[str]:
    """Who goes so that no edge is left.

    Args:
        pods: The one that goes most willingly first.
        edges: Pods that must not be together.
        rank: Nobody goes if any number of pods of lower ranks can go instead.
    """
    edges = list(edges)
    ranks = sorted({rank(pod) for pod in pods}, reverse=True)  # type: ignore[type-var]

    def cost(going: frozenset[str]) -> tuple[list[int], list[int]]:
        lost = Counter(rank(pod) for pod in going)
        return [lost[r] for r in ranks], sorted((pods.index(pod) for pod in going), reverse=True)

    return min((going for going in subsets(pods) if all(going & {*edge} for edge in edges)), key=cost)
