"""Which tokens the local engine computes next: continuous batching over blocks of keys and values.

Import what you need from the modules; `scheduler.py` is the first to read.
"""
