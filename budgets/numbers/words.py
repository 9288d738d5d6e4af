"""Numbers as a person reads them."""

import math


def seconds(value_s: float) -> str:
    """Three figures and a unit, such as "320 ms", "5.79 s" or "1593 s"."""
    if not math.isfinite(value_s):
        return "longer than anything observed"
    if value_s == 0:
        return "0 s"
    value, unit = (value_s * 1e3, "ms") if abs(value_s) < 0.9995 else (value_s, "s")
    decimals = min(max(2 - math.floor(math.log10(abs(value))), 0), 3)
    return f"{value:.{decimals}f} {unit}"


def tokens(count: float) -> str:
    """So many of them, such as "1 token" or "250 tokens"."""
    return f"{count:,.0f} token" + ("" if round(count) == 1 else "s")
