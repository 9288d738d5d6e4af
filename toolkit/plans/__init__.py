"""Plans: made, written, learned again, scored and watched."""
