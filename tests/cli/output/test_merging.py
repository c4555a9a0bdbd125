"""Sentences about many nodes as one."""

import pytest

from berth.cli.output.merging import merged


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (["cpu: 3 wanted, 500m of 4 free"], "cpu: 3 wanted, 500m of 4 free"),
        (
            ["cpu: 3 wanted, 500m of 4 free", "cpu: 3 wanted, 2 of 8 free", "cpu: 3 wanted, 0 of 4 free"],
            "cpu: 3 wanted, 0 to 2 of 4 to 8 free",
        ),
        (
            ["memory: 8Gi wanted, 900Mi of 4Gi free", "memory: 8Gi wanted, 2Gi of 4Gi free"],
            "memory: 8Gi wanted, 900Mi to 2Gi of 4Gi free",
        ),
        (
            ["no pod matching app=x in zone=a", "no pod matching app=x in zone=b"],
            "no pod matching app=x in zone=…",
        ),
        (
            ["the node has no label disk", "the node has disk=hdd", "the node has disk=nvme"],
            "the node has disk=…",
        ),
    ],
)
def test_what_differs_is_a_range(sentences: list[str], expected: str) -> None:
    """Figures become ranges from the least to the most, values a dot, and the commonest wording wins."""
    assert merged(sentences) == expected
