"""Speed and memory against named baselines; `make bench` writes docs/benchmarks.md."""
