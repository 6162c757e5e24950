"""Chess networks: `policy.network` of the kinds `chess_residual` and `chess_attention`, with named heads.

Both can be written as lc0 networks, so the choices here are those that lc0's file format can state.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ludus.config.base import Model

_NAME = r"[a-z][a-z0-9_]{0,31}"
Size = Annotated[int, Field(gt=0, le=65536)]
Activation = Literal["relu", "mish"]
InnerActivation = Literal["default", "relu", "mish", "swish", "selu", "relu_2", "tanh", "sigmoid", "none"]
CHESS_PLANES, CHESS_MOVES = 112, 1858


class ChessPolicyHeadConfig(Model):
    """A policy over lc0's 1,858 moves."""

    kind: Literal["attention", "convolution"] = "attention"
    """`attention`: from-squares against to-squares, 64 x 64, with promotions. `convolution`: 80 planes of moves, for a
    residual tower alone."""
    embedding: Size | None = None
    """Attention: width of its square embedding. Default: the body's width."""
    width: Size | None = None
    """Attention: width of queries and keys. Default: the embedding's."""


class ChessValueHeadConfig(Model):
    """Win, draw and loss of the side to move."""

    channels: Size = 32
    """Per square."""
    inner: Size = 128
    """Width of the layer on top; lc0's own converters expect 32 channels (residual tower) and 128 here."""
    error: bool = False
    """Also predict its own squared error, which `chess_value_error` trains and `optimistic` policy terms use."""
    buckets: int = Field(default=0, ge=0, le=4096)
    """Also predict a distribution over this many equal parts of [-1, 1], which `chess_value_categorical` trains."""


class ChessMovesLeftHeadConfig(Model):
    """Plies until the game ends."""

    channels: Size = 8
    """Per square."""
    inner: Size = 128
    """Width of the layer on top."""


class ChessHeadsConfig(Model):
    """Named heads, several of each kind if wanted; losses name the head that they train."""

    policy: dict[str, ChessPolicyHeadConfig] = Field(default={"vanilla": ChessPolicyHeadConfig()}, min_length=1)
    """lc0 knows `vanilla`, `optimistic_st`, `soft` and `opponent`; others travel under their own names."""
    value: dict[str, ChessValueHeadConfig] = Field(default={"winner": ChessValueHeadConfig()}, min_length=1)
    """lc0 knows `winner`, `q` and `st`; others travel under their own names."""
    moves_left: dict[str, ChessMovesLeftHeadConfig] = Field(default={"main": ChessMovesLeftHeadConfig()})
    """lc0 knows one, `main`. An empty mapping: none."""
    main_policy: str = "vanilla"
    """The head that plays."""
    main_value: str = "winner"
    """The head whose W - L is the value of a position."""

    @model_validator(mode="after")
    def _main_heads_exist(self) -> Self:
        for name in (*self.policy, *self.value, *self.moves_left):
            if not re.fullmatch(_NAME, name):
                raise ValueError(f"{name!r}: a head's name is small letters, digits and _, at most 32")
        for kind, name, known in (
            ("policy", self.main_policy, self.policy),
            ("value", self.main_value, self.value),
        ):
            if name not in known:
                raise ValueError(f"main_{kind}: no such head, {name!r}; there are {', '.join(known)}")
        return self


class ChessResidualConfig(Model):
    """Residual tower with squeeze-excitation on 112 planes."""

    kind: Literal["chess_residual"]
    blocks: int = Field(default=6, ge=0, le=256)
    """Residual blocks of two 3x3 convolutions."""
    filters: int = Field(default=64, gt=0, le=4096)
    """Channels of every convolution."""
    squeeze: int = Field(default=8, ge=0, le=4096)
    """Width of the squeeze-excitation unit of each block; 0: none."""
    activation: Activation = "relu"
    """Everywhere but in the outputs."""
    norm: Literal["none", "frozen"] = "none"
    """`none`: convolutions with a bias; every new block begins as the identity. `frozen`: batch norm whose statistics
    are constants, as in imported networks; its scale and shift are trained."""
    heads: ChessHeadsConfig = ChessHeadsConfig(policy={"vanilla": ChessPolicyHeadConfig(kind="convolution")})
    """Default: a convolutional policy, WDL and moves left."""


class SmolgenConfig(Model):
    """Attention logits computed from the whole position (smolgen)."""

    compressed: Size = 8
    """Numbers per square of the compressed position (lc0's large networks: 32)."""
    inner: Size = 64
    """Width of its first layer (256 there)."""
    size: Size = 32
    """Numbers per attention head from which a matrix shared by all layers makes 64 x 64 logits (256 there)."""
    activation: InnerActivation = "swish"
    """Of its layers."""


class ChessAttentionConfig(Model):
    """Attention body on 64 squares: DeepNorm, post-LN encoder layers, smolgen."""

    kind: Literal["chess_attention"]
    layers: int = Field(default=4, gt=0, le=128)
    """Encoder layers."""
    width: Size = 128
    """Of a square's embedding, and of queries, keys and values together."""
    heads_per_layer: int = Field(default=4, gt=0, le=256)
    """Attention heads; they divide the width."""
    feed_forward: Size | None = None
    """Width of the feed-forward layers. Default: the width."""
    position: Size = 8
    """Numbers that each square gets from a dense layer on the whole board (lc0: PE_DENSE)."""
    smolgen: SmolgenConfig | None = SmolgenConfig()
    """null: plain attention."""
    activation: Activation = "mish"
    """Everywhere but in the outputs and where another is named."""
    feed_forward_activation: InnerActivation = "default"
    """Of the encoder layers' feed-forward parts."""
    heads: ChessHeadsConfig = ChessHeadsConfig()
    """Default: an attention policy, WDL and moves left."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads_per_layer:
            raise ValueError(f"heads_per_layer: {self.heads_per_layer} does not divide width ({self.width})")
        wrong = [name for name, head in self.heads.policy.items() if head.kind == "convolution"]
        if wrong:
            raise ValueError(f"heads.policy.{wrong[0]}: convolution is for chess_residual; write kind: attention")
        return self


ChessNetworkConfig = ChessResidualConfig | ChessAttentionConfig
