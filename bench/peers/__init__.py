"""One probe, put to instrumentation libraries and to ours: first token, ways out, contract, cost.

`python -m bench.peers` builds an environment for each library under `build/peers`, runs the probe in it against the
simulated endpoint on this machine, and writes the tables between the two marks in `docs/benchmarks.md`.
"""

from bench.peers.page import section

__all__ = ["section"]
