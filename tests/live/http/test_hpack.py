"""Header fields of HTTP/2, beside another implementation of them."""

from __future__ import annotations

import hpack as other
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.live.http import hpack

VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=300)
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=12)


@given(fields=FIELDS, status=st.integers(200, 599), retry=st.integers(0, 10**6), huffman=st.booleans())
def test_of_what_others_pack_the_fields_that_matter_are_read(
    *, fields: list[tuple[str, str]], status: int, retry: int, huffman: bool
) -> None:
    """The fields that matter are read whatever stands between them, coded or not."""
    packing = other.Encoder()
    packing.header_table_size = 0
    block = packing.encode(
        [(":status", str(status)), *fields, ("retry-after", str(retry)), ("content-encoding", "gzip")],
        huffman=huffman,
    )
    found, matter = hpack.read_head(block)
    assert found == status
    assert matter[b"retry-after"] == str(retry).encode()
    assert matter[b"content-encoding"] == b"gzip"


@given(fields=FIELDS)
def test_what_is_packed_others_read(fields: list[tuple[str, str]]) -> None:
    """Every field is what it was, and nobody is to remember it."""
    given = [*fields, ("authorization", "Bearer " + "x" * 5000), (":path", "/" + "p" * 200)]
    block = b"".join(hpack.packed(*field) for field in given)
    reading = other.Decoder(max_header_list_size=2**20)
    assert [(bytes(a), bytes(b)) for a, b in reading.decode(block, raw=True)] == [
        (name.encode(), value.encode()) for name, value in given
    ]


@given(block=st.binary(max_size=60))
def test_what_is_no_head_is_told(block: bytes) -> None:
    """It is read or refused, whatever it is."""
    try:
        status, _ = hpack.read_head(block)
    except ValueError:
        return
    assert status >= 0


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"\xbe", "refers to another"),
        (b"\x7f\x00\x01a", "refers to another"),
        (b"\x80", "refers to another"),
        (b"\x3f\xe1\x1f", "keeps a table"),
        (b"\x48", "cut off"),
        (b"\x48\x03" + b"20", "cut off"),
        (b"\x48\x81\x00", "in the middle"),
        (b"\x48\x84\xff\xff\xff\xff", "before its end"),
        (b"\xff\xff\xff\xff\xff\xff\x01", "too large"),
        (b"\x48\x02ab", "invalid literal"),
        (b"\x48\x7f\x82\x07" + b"2" * 1025, "too large"),
    ],
)
def test_what_a_head_cannot_be(block: bytes, why: str) -> None:
    """A head that cannot be one is refused, and it is told why."""
    with pytest.raises(ValueError, match=why):
        hpack.read_head(block)


def test_names_that_cannot_matter_are_not_decoded() -> None:
    """However long they are, they take no time and no room: what is no code at all is not even noticed."""
    assert hpack.read_head(b"\x88\x00\x91" + b"\xff" * 17 + b"\x01v") == (200, {})
