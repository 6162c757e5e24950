"""Playing: runners on the host and on the device, network actors and fixed players.

Import what you need from the modules; some of them load JAX.
"""
