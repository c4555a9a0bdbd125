"""All scheduling rules once more, slow and obvious: what the columnar engine is compared with.

Plain loops over plain objects.  Nothing here imports the engine, and nothing is remembered between
two questions.  The recorded decisions of kube-scheduler in ``tests/data/conformance`` keep it honest.
"""

from tests.reference.cases import evaluate
from tests.reference.scheduler import evaluate_pod, place
from tests.reference.verdicts import Result, Score, Status
from tests.reference.world import Args, World

__all__ = ["Args", "Result", "Score", "Status", "World", "evaluate", "evaluate_pod", "place"]
