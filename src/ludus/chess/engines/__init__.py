"""UCI engines: a client of our own, engines by name, and engines as fixed players (`uci:stockfish?nodes=100`)."""

from ludus.chess.engines.engine import Analysis, Engine, EngineError, Limit
from ludus.chess.engines.info import Line
from ludus.chess.engines.naming import EngineSpec, find_program, parse_engine

__all__ = ["Analysis", "Engine", "EngineError", "EngineSpec", "Limit", "Line", "find_program", "parse_engine"]
