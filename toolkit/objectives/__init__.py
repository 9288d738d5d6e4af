"""Objectives against what a store holds: verdicts, proposals, alerts."""
