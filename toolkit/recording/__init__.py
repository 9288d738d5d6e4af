"""From a program's spans to the spool: `hopbudget trace`, adopting, encoding, exporting."""
