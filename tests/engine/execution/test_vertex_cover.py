from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.execution.vertex_cover import EXACT_UP_TO, bits, least_cover
from tests.reference.eviction_set import best_parting

Edges = set[tuple[int, int]]


def covered(levels: list[int], edges: Edges) -> set[int]:
    adjacency = [0] * len(levels)
    for one, other in edges:
        adjacency[one] |= 1 << other
        adjacency[other] |= 1 << one
    return set(bits(least_cover(adjacency, levels)))


def clique(size: int) -> Edges:
    return {(one, other) for one in range(size) for other in range(one)}


@st.composite
def graphs(draw: st.DrawFn, *, most: int) -> tuple[list[int], Edges]:
    size = draw(st.integers(1, most))
    levels = sorted(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    vertices = st.integers(0, size - 1)
    pairs = draw(st.sets(st.tuples(vertices, vertices), max_size=3 * size))
    return levels, {(one, other) for one, other in pairs if one != other}


def test_without_edges_nobody_goes() -> None:
    """A graph without edges, or without vertices, has an empty cover."""
    assert covered([0, 0, 1], set()) == covered([], set()) == set()


def test_the_lower_level_goes_however_many_there_are() -> None:
    """Three of the lower level go for one of the higher."""
    assert covered([0, 0, 0, 1], {(0, 3), (1, 3), (2, 3)}) == {0, 1, 2}


def test_those_who_go_for_others_are_not_parted_from() -> None:
    """The lowest may stay: the one it is at odds with goes for the sake of the highest."""
    assert covered([0, 1, 2], {(0, 1), (1, 2)}) == {1}


def test_with_equal_levels_the_fewest_go() -> None:
    """Of a star only the centre goes, and of a chain every other one."""
    assert covered([0] * 5, {(4, 0), (4, 1), (4, 2), (4, 3)}) == {4}
    assert covered([0] * 5, {(0, 1), (1, 2), (2, 3), (3, 4)}) == {1, 3}


def test_of_a_clique_the_last_stays() -> None:
    """Of a clique of any size all go but the last."""
    for size in (2, 3, EXACT_UP_TO + 1, 300):
        assert covered([0] * size, clique(size)) == set(range(size - 1))


def test_of_two_large_camps_the_smaller_goes() -> None:
    """Of two camps too large to be searched through the smaller one goes."""
    size = EXACT_UP_TO
    edges = {(one, size + other) for one in range(size) for other in range(size + 5)}

    assert covered([0] * (2 * size + 5), edges) == set(range(size))


@settings(max_examples=300)
@given(graphs(most=9))
def test_no_better_choice_exists(graph: tuple[list[int], Edges]) -> None:
    """The choice is the one that trying every set finds."""
    levels, edges = graph
    names = [str(vertex) for vertex in range(len(levels))]
    best = best_parting(names, [(str(a), str(b)) for a, b in edges], lambda name: levels[int(name)])

    assert {str(vertex) for vertex in covered(levels, edges)} == best


@settings(max_examples=100)
@given(graphs(most=80))
def test_nobody_is_left_at_odds_and_nobody_goes_in_vain(graph: tuple[list[int], Edges]) -> None:
    """Whatever the size, no edge is left, and nobody goes who has no neighbour that stays."""
    levels, edges = graph
    going = covered(levels, edges)

    assert all(one in going or other in going for one, other in edges)
    for vertex in going:
        around = {a if b == vertex else b for a, b in edges if vertex in (a, b)}
        assert around - going
