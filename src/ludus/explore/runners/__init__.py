"""Runners: each plays many tasks of one kind at once."""
