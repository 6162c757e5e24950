"""What a dashboard knows of a run, and where it hears it from: shared by the terminal and the web page."""
