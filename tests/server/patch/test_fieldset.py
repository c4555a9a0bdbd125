"""Field sets and the form they are stored in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.server.patch import fieldset
from tests.support.manifests.api_objects import PROPERTY

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
field_sets = st.frozensets(st.lists(elements, min_size=1, max_size=4).map(tuple), max_size=8)


def test_fields_v1_form() -> None:
    """An element that is owned itself and has owned children is marked with a dot."""
    paths = {("f:a",), ("f:a", "f:b"), ("f:c", 'k:{"name":"x"}', "f:d")}
    written = {"f:a": {".": {}, "f:b": {}}, "f:c": {'k:{"name":"x"}': {"f:d": {}}}}
    assert written == fieldset.encode(paths)


@PROPERTY
@given(field_sets)
def test_round_trip(paths: fieldset.FieldSet) -> None:
    """Decoding an encoded field set gives the set itself."""
    assert paths == fieldset.decode(fieldset.encode(paths))


@PROPERTY
@given(field_sets, field_sets)
def test_holds_is_membership(paths: fieldset.FieldSet, others: fieldset.FieldSet) -> None:
    """A path is held by an encoded field set exactly when it is in the set."""
    written = fieldset.encode(paths)
    for path in paths | others:
        assert (path in paths) == fieldset.holds(written, path)


def test_what_is_no_field_set_is_empty() -> None:
    """Anything that is no field set is read as an empty one."""
    assert frozenset() == fieldset.decode(None) == fieldset.decode([]) == fieldset.decode({".": {}})


def test_paths_as_messages_write_them() -> None:
    """A path is shown as kube-apiserver shows it in messages."""
    path = ("f:spec", "f:ports", fieldset.keys({"protocol": "TCP", "port": 80}), "f:name")
    assert fieldset.show(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert fieldset.show(("f:metadata", "f:finalizers", fieldset.value("a"))) == '.metadata.finalizers[="a"]'
    assert fieldset.show(("f:a", "i:0")) == ".a[0]"
