"""Long runs under random trouble: nothing may be lost, doubled, leaked or stuck. `make soak` runs them."""
