"""From YAML text to a config: reading, overrides, validation, defaults, stages; and what a resume may change."""
