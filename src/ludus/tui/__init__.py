"""The terminal dashboard: a client of the daemon's messages and a reader of run directories, nothing else."""
