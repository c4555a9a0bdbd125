"""The answer in one sentence, as somebody would give it who was asked about just these changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.engine.offline.what_if.changes import ClusterChange, DrainNodes, LoseNodes
from berth.engine.offline.what_if.outcome import StrandedPod, WhatIfOutcome


def sentence_of(found: WhatIfOutcome, changes: Sequence[ClusterChange]) -> str:
    """Whether it can be done, how many pods it concerns, and what is in the way."""
    problems, earlier = _problems(found), _earlier(found)
    if problems:
        return "; ".join([*problems, *earlier]) + "."
    good = _good(found, changes)
    return "; ".join([good.removesuffix("."), *earlier]) + "."


def _good(found: WhatIfOutcome, changes: Sequence[ClusterChange]) -> str:
    pods = _count(found.concerned, "pod")
    each = "the pod lands" if found.concerned == 1 else f"all {found.concerned} pods land"
    if len(changes) == 1 and isinstance(change := changes[0], LoseNodes | DrainNodes):
        done = f"{change.target} can be {'lost' if isinstance(change, LoseNodes) else 'drained'}"
        if not found.concerned:
            return f"{done}: no pod has to move."
        rounds = found.last_round
        return f"{done}: {each} elsewhere{f', in {rounds} rounds' if rounds > 1 else ''}."
    if not found.concerned:
        gone = len(found.gone)
        what = f"{_count(gone, 'pod')} {'is' if gone == 1 else 'are'} gone" if gone else "nothing moves"
        return f"every pod has a node, and {what}."
    parts = [
        f"{number} {word}"
        for number, word in (
            (sum(move.source is not None and move.replaces is None for move in found.moves), "moved"),
            (sum(move.replaces is not None for move in found.moves), "replaced"),
            (sum(move.source is None and move.replaces is None for move in found.moves), "new"),
        )
        if number
    ]
    stay = ", each where it was" if found.concerned > 1 else ", where it was"
    where = f" ({', '.join(parts)})" if parts else stay
    verb = "has" if found.concerned == 1 else "have"
    return f"all is well: {f'all {pods}' if found.concerned > 1 else pods} {verb} a node{where}."


def _problems(found: WhatIfOutcome) -> list[str]:
    problems = []
    stranded = [pod for pod in found.unplaced if not pod.waited]
    if stranded:
        who = f"{len(stranded)} of {_count(found.concerned, 'pod')}"
        problems.append(f"{who} would find no node: {_reason(stranded)}")
    if lost := found.lost:
        problems.append(f"{_count(lost, 'pod')} would be lost, since nobody makes {_them(lost)} again")
    if found.blocked:
        names = sorted({name for stay in found.blocked for name in stay.budgets})
        verb = "stays" if len(found.blocked) == 1 else "stay"
        which = f"{'budget' if len(names) == 1 else 'budgets'} {', '.join(names)}"
        problems.append(f"{_count(len(found.blocked), 'pod')} {verb}, held by {which}")
    if refused := sum(stay.refused for stay in found.stays):
        whose = "has" if refused == 1 else "have"
        problems.append(
            f"drain would refuse to begin without --force: {_count(refused, 'pod')} {whose} no owner"
        )
    hard = [rule for rule in found.broken if rule.hard]
    if hard:
        pods = len({(rule.namespace, rule.pod) for rule in hard})
        rules = ", ".join(sorted({rule.rule for rule in hard}))
        problems.append(f"{_count(pods, 'pod')} would break a hard rule ({rules})")
    uneven = [spread for spread in found.spread if spread.worse]
    if uneven and not any(rule.rule == uneven[0].rule for rule in hard):
        first = uneven[0]
        skew = first.after.skew if first.after else 0
        problems.append(f"{first.owner} would be uneven over {first.topology_key} (skew {skew})")
    return problems


def _earlier(found: WhatIfOutcome) -> list[str]:
    """About those that are no worse off than before."""
    waiting = [pod for pod in found.unplaced if pod.waited]
    if not waiting:
        return []
    verb = "has" if len(waiting) == 1 else "have"
    return [f"{_count(len(waiting), 'pod')} had no node before and {verb} none now: {_reason(waiting)}"]


def _reason(unplaced: Sequence[StrandedPod]) -> str:
    """The message that most of them have."""
    messages = Counter(pod.message.rstrip(".") for pod in unplaced)
    message, number = messages.most_common(1)[0]
    return message if number == len(unplaced) else f"{message} ({number} of them)"


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
