"""Underrun: would a reader or a speech engine that takes r tokens a second have waited for this stream?"""

import numpy as np

from hopbudget.budgets.profile import Floats


def waited_s(gaps_s: Floats, chunk_s: float) -> float:
    """The longest wait of somebody who begins at the first chunk and takes `chunk_s` for each; 0 if there is none.

    After j chunks, j * chunk_s seconds are used up, and the next chunk came after the first j gaps: the wait is the
    largest sum of the first j gaps minus j * chunk_s. It is also how much later they should have begun.
    """
    if not len(gaps_s):
        return 0.0
    return max(0.0, float(np.cumsum(gaps_s - chunk_s).max()))
