"""Players that never learn, and networks in games of words."""
