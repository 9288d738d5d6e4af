"""Numbers as a person reads them."""

import math


def seconds(value_s: float) -> str:
    """Three figures and a unit, such as "0.25 s", "5.79 s" or "1593 s"."""
    if not math.isfinite(value_s):
        return "longer than anything observed"
    if value_s == 0:
        return "0 s"
    decimals = min(max(2 - math.floor(math.log10(abs(value_s))), 0), 6)
    return f"{value_s:.{decimals}f} s"
