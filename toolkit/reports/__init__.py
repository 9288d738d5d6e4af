"""What the reading commands say of a store."""
