"""Chess at volume: the game, UCI engines, training chunks, networks and their learner. Needs the extra `chess`.

Light to import: `ludus_chess`, which is C++, and JAX are loaded by the modules that use them. Other rooms find what is
here by name (`chess:standard`, `uci:stockfish`, `chess_attention`), and without the extra say what to install.
"""

__all__: list[str] = []
