"""What `hopbudget trace` puts in front of a program's own search path; see `sitecustomize` beside this."""
