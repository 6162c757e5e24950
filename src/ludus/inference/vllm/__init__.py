"""A vLLM server as an engine."""
