"""Any OpenAI-compatible endpoint as an engine."""
