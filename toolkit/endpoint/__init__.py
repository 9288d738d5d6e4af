"""An OpenAI-compatible server whose GPU is a model: no network, no weights, and faults on request."""

from hopbudget.endpoint.serving import running, running_apart, serve

__all__ = ["running", "running_apart", "serve"]
