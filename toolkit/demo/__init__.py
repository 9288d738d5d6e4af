"""The demos, their agents, and sample data."""
