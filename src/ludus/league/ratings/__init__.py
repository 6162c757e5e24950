"""How good each member is: TrueSkill, Elo, relative population performance."""
