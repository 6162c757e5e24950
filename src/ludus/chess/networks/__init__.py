"""Chess networks in JAX: residual tower or attention body, with named policy, value and moves-left heads."""

from ludus.chess.networks.chess_network import ChessNetwork, ChessOutputs
from ludus.chess.networks.moves import Move, attention_map, convolution_map, policy_moves

__all__ = ["ChessNetwork", "ChessOutputs", "Move", "attention_map", "convolution_map", "policy_moves"]
