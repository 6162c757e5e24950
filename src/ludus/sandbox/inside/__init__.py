"""What runs on the other side: standard library only, quick to import, nothing that the other processes know."""
