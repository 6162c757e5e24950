"""A run as a service: one JSON object a line, in and out. `ludus daemon` serves it, `ludus tui` is a client of it."""
