"""OpenAI's and Anthropic's APIs from a server whose GPU is a model: no network, no weights, faults on request."""

from hopbudget.endpoint.serving import running, running_apart, serve

__all__ = ["running", "running_apart", "serve"]
