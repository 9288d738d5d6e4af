"""What a hop should have taken, and how long a first token takes, by model and size."""
