"""One file for each section of the YAML, named as the section: its keys, and the checks of it beside them."""
