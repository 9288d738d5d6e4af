"""The receiver: spans that others send over OTLP/HTTP, into the spool of a store."""
