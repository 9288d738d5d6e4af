"""Objectives and what became of them, and two sets of trajectories side by side."""
