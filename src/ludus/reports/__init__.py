"""Runs as people read them: tables, charts and texts."""
