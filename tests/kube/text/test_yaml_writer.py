"""JSON values as YAML."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.text import yaml_reader, yaml_writer

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(
        ["yes", "~", "1e3", "0x1f", "- a", "a: b", "#", "", "two\nlines", "\x85", "22:30", "<<"]
    )
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(_VALUES.filter(lambda value: value is not None))
def test_reads_back_as_it_was(value: object) -> None:
    """What is written is the same value to whoever reads it."""
    text = "".join(yaml_writer.write({"value": value}))

    assert [document.value for document in yaml_reader.read(text)] == [{"value": value}]


def test_looks_like_kubectls() -> None:
    """Blocks are indented as people know it, and only what needs quotes has them."""
    value = {"kind": "List", "items": [{"a": [1, []], "b": {}}, [["x"]]], "on": "true"}
    text = "".join(yaml_writer.write(value))

    assert text == ('kind: List\nitems:\n- a:\n  - 1\n  - []\n  b: {}\n-\n  -\n    - x\n"on": "true"\n')
    assert yaml.safe_load(text) == value
