"""Whatever becomes rows that are learnt from besides rollouts: files, other runs, games of bots."""
