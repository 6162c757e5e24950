"""Who may ask for what: the gate that every request passes, and the sessions of browsers."""
