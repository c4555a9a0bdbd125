"""Keys that JSON has twice."""

from __future__ import annotations

import tracemalloc

from berth.kube.text.json_reader import repeated_keys


def test_paths_of_repeated_keys() -> None:
    """They are told in the order of the text, with the way to them."""
    text = b'{"a":[{"b":1,"b":2},{"c":{"d":1,"e":{},"d":2}}],"a":3,"f":[[{"g":1,"g":1}]]}'
    assert repeated_keys(text) == ["a", "a[0].b", "a[1].c.d", "f[0][0].g"]


def test_long_keys_are_not_repeated() -> None:
    """A long key is not spelled out for each of the many things below it."""
    inside = ",".join(f'"k{i}":0' for i in range(5000))
    text = f'{{"{"x" * 100_000}":{{{inside}}},"y":1,"y":2}}'.encode()
    tracemalloc.start()
    assert repeated_keys(text) == ["y"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000


def test_text_of_paths_is_bounded() -> None:
    """Neither is it told for each of many keys below it that occur twice."""
    inside = ",".join(f'"k{i}":0,"k{i}":1' for i in range(50))
    assert len(repeated_keys(f'{{"{"x" * 300_000}":{{{inside}}}}}'.encode())) == 4
