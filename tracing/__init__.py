"""Capture: trajectories, hops and their streams, recorded as OpenTelemetry spans."""

from hopbudget.tracing.decorators import hop, pause, trajectory, work
from hopbudget.tracing.hops import watch

__all__ = ["hop", "pause", "trajectory", "watch", "work"]
