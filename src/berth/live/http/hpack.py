"""Header fields as HTTP/2 packs them (RFC 7541), without the dynamic table.

Fields are sent as literals, and the server is told to use a table of size 0: so every head can be read by
itself, and fields that nobody needs are skipped.
"""

from __future__ import annotations

from functools import lru_cache

# Indices of the static table (RFC 7541, appendix A), of the fields that are used here.
_LAST = 61
_STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
_PLACES = {b":authority": 1, b":method": 2, b":path": 4, b":scheme": 6, b"accept-encoding": 16, b"accept": 19}
_PLACES |= {b"authorization": 23, b"content-length": 28, b"content-type": 31, b"user-agent": 58}
_NAMES = dict.fromkeys(_STATUSES, b":status") | {26: b"content-encoding", 53: b"retry-after"}
_OF_INTEREST = frozenset(_NAMES.values())
# Longest name, in coded bytes, that can be one of them (no letter takes more than a byte), and longest value.
_LONGEST_NAME, _LONGEST_VALUE = max(map(len, _OF_INTEREST)), 2**10
# How many bits the Huffman code of each byte and of the end has, in base 36; codes of one length go up.
_BITS = (
    "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad67777777777777777777777878djde6"
    "f56565666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn"
    "qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrqu"
)


def packed(name: str, value: str) -> bytes:
    """A field, written out."""
    known = name.lower().encode()
    # Never indexed: no proxy may keep credentials in its table.
    kind = 0x10 if known == b"authorization" else 0
    place = _PLACES.get(known, 0)
    begin = _number(place, 4, kind)
    return begin + (b"" if place else text(known)) + text(value.encode())


def text(value: bytes) -> bytes:
    """A text, written out."""
    size = len(value)
    return b"%c%b" % (size, value) if size < 0x7F else _number(size, 7) + value


def read_head(block: bytes) -> tuple[int, dict[bytes, bytes]]:
    """The status of an answer and those of its fields that matter.

    Raises:
        ValueError: this is no head, or it refers to what was sent before.
    """
    fields: dict[bytes, bytes] = {}
    status, at, end = 0, 0, len(block)
    try:
        while at < end:
            first = block[at]
            if first & 0x80:
                place, at = _read_number(block, at, 7)
                status = _STATUSES.get(_in_table(place), status)
            elif first & 0xE0 == 0x20:
                size, at = _read_number(block, at, 5)
                if size:
                    raise ValueError("it keeps a table")
            else:
                place, at = _read_number(block, at, 6 if first & 0x40 else 4)
                if place:
                    name = _NAMES.get(_in_table(place))
                else:
                    coded, name, at = _read_text(block, at)
                    name = _decoded(name) if coded and len(name) <= _LONGEST_NAME else name
                coded, value, at = _read_text(block, at)
                if name in _OF_INTEREST:
                    if len(value) > _LONGEST_VALUE:
                        raise ValueError("a value in a head is too large")
                    fields[name] = _decoded(value) if coded else value
    except IndexError:
        raise ValueError("a head is cut off") from None
    if b":status" in fields:
        status = int(fields.pop(b":status"))
    return status, fields


def _in_table(place: int) -> int:
    if not 0 < place <= _LAST:
        raise ValueError("a head refers to another")
    return place


def _number(value: int, bits: int, kind: int = 0) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes((kind | value,))
    found = bytearray((kind | most,))
    value -= most
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read_number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number and where it ends."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in (0, 7, 14, 21):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number in a head is too large")


def _read_text(block: bytes, at: int) -> tuple[int, bytes, int]:
    """Whether a text is coded, the text, and where it ends."""
    coded = block[at] & 0x80
    size, at = _read_number(block, at, 7)
    end = at + size
    if end > len(block):
        raise IndexError
    return coded, block[at:end], end


@lru_cache(maxsize=1024)
def _decoded(coded: bytes) -> bytes:
    """What a Huffman-coded text says."""
    codes = _codes()
    found = bytearray()
    code, bits = 0, 0
    for byte in coded:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            bits += 1
            symbol = codes.get((bits, code))
            if symbol is not None:
                if symbol > 0xFF:
                    raise ValueError("a text in a head ends before its end")
                found.append(symbol)
                code, bits = 0, 0
            elif bits > 30:
                raise ValueError("a text in a head is no text")
    if bits > 7 or code != (1 << bits) - 1:
        raise ValueError("a text in a head ends in the middle")
    return bytes(found)


@lru_cache(maxsize=1)
def _codes() -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    code = bits = 0
    for size, symbol in sorted((int(letter, 36), symbol) for symbol, letter in enumerate(_BITS)):
        code <<= size - bits
        bits = size
        found[size, code] = symbol
        code += 1
    return found
