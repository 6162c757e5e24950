"""Ratings of members: TrueSkill and Elo."""
