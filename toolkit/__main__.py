"""`python -m hopbudget` is the `hopbudget` command."""

from hopbudget.cli import main

main()
