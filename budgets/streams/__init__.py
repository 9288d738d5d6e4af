"""The final stream: its own objectives, its sizes, and who would have had to wait."""
