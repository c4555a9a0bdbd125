from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.state.matching import MatchIndex
from berth.engine.state.pod_class import LabelSet, Term
from berth.kube.selectors import EVERYTHING, NOTHING, Requirement, Selector

KEYS, VALUES, NAMESPACES = ("a", "b", "c"), ("1", "2"), ("x", "y")

label_maps = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
requirements = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.frozensets(st.sampled_from(VALUES), min_size=1),
    ),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
)
selectors = st.one_of(
    st.just(NOTHING), st.just(EVERYTHING), st.builds(Selector, st.frozensets(requirements, max_size=3))
)
term_keys = st.tuples(
    selectors, st.none() | st.frozensets(st.sampled_from(NAMESPACES)), st.none() | selectors
)
set_keys = st.tuples(st.sampled_from(NAMESPACES), label_maps)


def selects(index: MatchIndex, term: Term, label_set: LabelSet) -> bool:
    """The definition, without postings or anchors."""
    labels = index.namespace_labels(label_set.namespace)
    return term.covers(label_set.namespace, labels) and term.selector.matches(label_set.labels)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(set_keys, term_keys), max_size=12),
    st.dictionaries(st.sampled_from(NAMESPACES), label_maps),
    st.dictionaries(st.sampled_from(NAMESPACES), label_maps),
)
def test_edges_equal_trying_everything(
    newcomers: list[tuple[str, dict[str, str]] | tuple[Selector, frozenset[str] | None, Selector | None]],
    before: dict[str, dict[str, str]],
    after: dict[str, dict[str, str]],
) -> None:
    """In any order of arrival, namespaces relabelled or not, a term has just the sets it selects."""
    index = MatchIndex()
    for name, labels in before.items():
        index.set_namespace(name, labels)
    terms, sets = [], []
    for newcomer in newcomers:
        if len(newcomer) == 2:
            sets.append(index.label_set(*newcomer))
        else:
            terms.append(index.term(*newcomer))
    for name in NAMESPACES:
        index.set_namespace(name, after.get(name))
    for term in terms:
        for label_set in sets:
            assert (
                selects(index, term, label_set) == (label_set in term.selected) == (term in label_set.terms)
            )


def test_equal_newcomers_share_an_entry() -> None:
    """The order of labels or requirements does not matter."""
    index = MatchIndex()
    first, second = (Requirement(key, "Exists") for key in "ab")

    assert index.label_set("x", {"a": "1", "b": "2"}) is index.label_set("x", {"b": "2", "a": "1"})
    assert index.term(Selector(frozenset((first, second))), None) is index.term(
        Selector(frozenset((second, first))), None
    )


def test_a_namespace_that_is_gone_is_not_known() -> None:
    """It is forgotten whether it had labels or not."""
    index = MatchIndex()
    index.set_namespace("plain", {})
    index.set_namespace("labelled", {"a": "1"})
    assert set(index.namespaces) == {"plain", "labelled"}
    for name in ("plain", "labelled", "never-seen"):
        index.set_namespace(name, None)
    assert not index.namespaces


def test_forgetting_leaves_nothing_behind() -> None:
    """What is not kept is unlinked on both sides, and interned anew when it returns."""
    index = MatchIndex()
    term = index.term(EVERYTHING, None)
    kept, dropped = index.label_set("x", {"a": "1"}), index.label_set("x", {"a": "2"})

    index.keep_only({kept}, {term})

    assert [kept] == list(term.selected)
    assert dropped is not index.label_set("x", {"a": "2"})
    index.keep_only({kept}, set())
    assert list(kept.terms) == []
