import pytest

from tests.reference import evaluate_pod
from tests.support.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_reference(scenario: Scenario) -> None:
    """The reference finds the feasible and the best nodes the design documents name."""
    result = evaluate_pod(scenario.cluster.world(), scenario.pod)

    assert result.validation == []
    assert tuple(result.feasible) == scenario.feasible
    assert tuple(result.max_nodes) == scenario.best


def test_names() -> None:
    """No two scenarios have the same name."""
    names = [scenario.name for scenario in SCENARIOS]

    assert sorted(set(names)) == sorted(names)
