"""What a run of a language model takes on GPUs: `ludus check --plan`."""
