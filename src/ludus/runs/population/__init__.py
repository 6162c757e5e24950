"""Populations that learn: generations of learners, each an ordinary run, and the table of what they get."""

from ludus.runs.population.population_run import PopulationRun

__all__ = ["PopulationRun"]
