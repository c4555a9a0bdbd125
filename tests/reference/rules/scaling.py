"""The scaling to 0..100 that several rules share."""

from tests.reference.verdicts import Score, Scores

MAX_SCORE = 100


def scaled(raw: dict[str, int], *, reverse: bool = False) -> Scores:
    """The highest raw score becomes 100, or 0 if more is worse."""
    highest = max(raw.values(), default=0)
    scores = {}
    for node, score in raw.items():
        share = MAX_SCORE * score // highest if highest else 0
        scores[node] = Score(score, MAX_SCORE - share if reverse else share)
    return scores


def unscaled(raw: dict[str, int]) -> Scores:
    return {node: Score(score, score) for node, score in raw.items()}
