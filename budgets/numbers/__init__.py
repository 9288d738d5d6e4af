"""Statistics that know nothing of agents: quantiles, intervals, clustered means, scores."""
