"""Why trajectories took longer than usual: causes that add up, over one and over many."""
