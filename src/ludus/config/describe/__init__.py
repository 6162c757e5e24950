"""A config in other forms: sentences for `ludus check`, YAML text, JSON Schema."""
