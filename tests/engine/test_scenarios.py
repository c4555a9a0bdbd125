import pytest

from tests.support.engine import chosen_by, engine_of, verdict_of
from tests.support.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_worked_examples(scenario: Scenario) -> None:
    """The engine finds the feasible and the best nodes that the design documents name."""
    engine = engine_of(scenario.cluster)
    verdict = verdict_of(engine, scenario.pod)
    totals = verdict["weighted_total"]
    best = tuple(node for node in verdict["feasible"] if totals[node] == max(totals.values()))

    assert scenario.feasible == tuple(verdict["feasible"])
    assert scenario.best == best
    assert (scenario.best or (None,))[0] == chosen_by(engine, scenario.pod)
