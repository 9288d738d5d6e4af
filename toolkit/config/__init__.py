"""`hopbudget.toml` and where things are."""
