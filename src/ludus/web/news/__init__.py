"""Runs that somebody looks at: each is attached to once, whoever looks, and told of as it changes."""
