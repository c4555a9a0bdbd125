"""One sentence for many that differ in a figure or a name only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.kube.amounts.quantity import QuantityError, parse

_PUNCTUATION = ",.:;)"
_OTHER = "…"


def merged(sentences: Sequence[str]) -> str:
    """The sentence for all of them: figures as ranges, and the commonest wording if they differ in more."""
    forms = Counter(len(sentence.split()) for sentence in sentences)
    words, _ = forms.most_common(1)[0]
    columns = zip(*(s.split() for s in sentences if len(s.split()) == words), strict=True)
    return " ".join(_word(sorted(set(column))) for column in columns)


def _word(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    bare = [word.rstrip(_PUNCTUATION) for word in words]
    tail = words[0][len(bare[0]) :]
    try:
        ranked = sorted(bare, key=parse)
    except QuantityError:
        prefixes = {word.rpartition("=")[0] for word in bare}
        prefix = prefixes.pop() if len(prefixes) == 1 else ""
        return f"{prefix}={_OTHER}{tail}" if prefix else f"{bare[0]} or other{tail}"
    return f"{ranked[0]} to {ranked[-1]}{tail}"
