"""Kinds of run: single, staged, population, evaluate, exact PSRO, cycles."""
