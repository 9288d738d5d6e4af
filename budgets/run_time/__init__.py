"""What an agent that runs can be told: its chance, what fits, how long to wait, when to stop."""
