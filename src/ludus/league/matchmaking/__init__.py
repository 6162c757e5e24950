"""Who is in the league, and who meets whom next."""
