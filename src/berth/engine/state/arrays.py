"""Array types shared by the engine, and growing them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
IntArray = NDArray[np.integer[Any]]
IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]

# Node slots a rule is asked about: all of them (a slice, so columns are viewed, not copied) or a few.
Slots = slice | IndexArray

# Set for a node that a rule rejects, and subtracted from its score: larger than any score can be, and a
# single bit, so that several rules may set it.
BLOCKED = 1 << 30


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy of `array` whose last axis has `size` entries, new ones zero."""
    bigger = np.zeros((*array.shape[:-1], size), dtype=array.dtype)
    bigger[..., : array.shape[-1]] = array
    return bigger
