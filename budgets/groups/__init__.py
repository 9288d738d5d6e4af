"""What belongs together: runs and folds, sessions, conversations, classes."""
