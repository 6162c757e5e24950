"""Bodies and heads of `ludus.chess.networks`, layer by layer, as operators of a graph.

Invariant: the same names and the same arithmetic as there. The tower's features are `[B, C, 8, 8]` here, those of the
attention body `[B * 64, C]` as there.
"""

from __future__ import annotations

from math import sqrt

from ludus.chess.networks.moves import POLICY_PLANES, attention_map, convolution_map
from ludus.chess.onnx_format.graph import Graph
from ludus.config.sections.chess import (
    CHESS_PLANES,
    ChessAttentionConfig,
    ChessPolicyHeadConfig,
    ChessResidualConfig,
    ChessValueHeadConfig,
)

_PIECE_PLANES = 12


# -- bodies --------------------------------------------------------------------------------------------------------


def tower(graph: Graph, config: ChessResidualConfig, planes: str) -> str:
    """From planes `[B, 112, 8, 8]` to features `[B, F, 8, 8]`."""
    frozen, activation = config.norm == "frozen", config.activation
    x = graph.activate(activation, graph.convolution("body.stem", planes, frozen_norm=frozen))
    for number in range(config.blocks):
        block = f"body.blocks.{number}"
        branch = graph.convolution(f"{block}.first", x, frozen_norm=frozen)
        branch = graph.convolution(f"{block}.second", graph.activate(activation, branch), frozen_norm=frozen)
        if config.squeeze:
            branch = _squeeze_excitation(graph, f"{block}.se", branch, config)
        x = graph.activate(activation, graph.op("Add", f"{block}.sum", x, branch))
    return x


def attention_body(graph: Graph, config: ChessAttentionConfig, planes: str) -> str:
    """From planes `[B, 112, 8, 8]` to features `[B * 64, D]`."""
    width, alpha = config.width, (2 * config.layers) ** -0.25
    squares = graph.reshape("squares", rows_of_squares(graph, "planes", planes, CHESS_PLANES), (-1, 64, CHESS_PLANES))
    pieces = graph.op(
        "Slice",
        "pieces",
        squares,
        *(graph.constant(f"pieces.{part}", [number]) for part, number in (("from", 0), ("to", _PIECE_PLANES))),
        graph.constant("pieces.axis", [2]),
    )
    position = graph.dense("body.position", graph.reshape("pieces.flat", pieces, (-1, 64 * _PIECE_PLANES)))
    position = graph.reshape("body.position.squares", position, (-1, 64, config.position))
    seen = graph.op("Concat", "seen", squares, position, axis=2)
    x = graph.dense("body.embedding", graph.reshape("seen.rows", seen, (-1, CHESS_PLANES + config.position)))
    x = graph.layer_norm("body.embedding_norm", graph.activate(config.activation, x))
    x = graph.reshape("body.embedding_norm.squares", x, (-1, 64, width))
    x = graph.op("Mul", "body.multiplied", x, graph.constant("body.multiply", graph.weights["body.multiply"]))
    x = graph.op("Add", "body.gated", x, graph.constant("body.add", graph.weights["body.add"]))
    x = graph.reshape("body.gated.rows", x, (-1, width))
    x = _feed_forward(graph, "body.feed_forward", x, config.activation, alpha)
    x = graph.layer_norm("body.feed_forward_norm", x)
    for number in range(config.layers):
        x = _encoder_layer(graph, f"body.layers.{number}", x, config, alpha)
    return x


def _squeeze_excitation(graph: Graph, layer: str, x: str, config: ChessResidualConfig) -> str:
    filters = config.filters
    pooled = graph.reshape(f"{layer}.flat", graph.op("GlobalAveragePool", f"{layer}.pool", x), (-1, filters))
    squeezed = graph.activate(config.activation, graph.dense(f"{layer}.squeeze", pooled))
    excited = graph.reshape(f"{layer}.channels", graph.dense(f"{layer}.excite", squeezed), (-1, 2 * filters, 1, 1))
    scale = graph.op("Split", f"{layer}.split", excited, outputs=2, axis=1)
    scaled = graph.op("Mul", f"{layer}.scaled", graph.activate("sigmoid", scale), x)
    return graph.op("Add", f"{layer}.shifted", scaled, f"{layer}.split.1")


def _feed_forward(graph: Graph, layer: str, x: str, activation: str, alpha: float) -> str:
    inner = graph.activate(activation, graph.dense(f"{layer}.first", x))
    branch = graph.scaled(f"{layer}.branch", graph.dense(f"{layer}.second", inner), alpha)
    return graph.op("Add", f"{layer}.sum", x, branch)


def _encoder_layer(graph: Graph, layer: str, x: str, config: ChessAttentionConfig, alpha: float) -> str:
    heads = config.heads_per_layer
    depth = config.width // heads

    def split(name: str, order: tuple[int, ...]) -> str:
        rows = graph.reshape(f"{layer}.{name}.heads", graph.dense(f"{layer}.{name}", x), (-1, 64, heads, depth))
        return graph.op("Transpose", f"{layer}.{name}.turned", rows, perm=list(order))

    logits = graph.op("MatMul", f"{layer}.products", split("query", (0, 2, 1, 3)), split("key", (0, 2, 3, 1)))
    logits = graph.scaled(f"{layer}.logits", logits, 1 / sqrt(depth))
    if config.smolgen is not None:
        logits = graph.op("Add", f"{layer}.biased", logits, _smolgen(graph, f"{layer}.smolgen", x, config))
    mix = graph.op("Softmax", f"{layer}.mix", logits, axis=-1)
    seen = graph.op("MatMul", f"{layer}.seen", mix, split("value", (0, 2, 1, 3)))
    seen = graph.op("Transpose", f"{layer}.seen.turned", seen, perm=[0, 2, 1, 3])
    branch = graph.dense(f"{layer}.out", graph.reshape(f"{layer}.seen.rows", seen, (-1, config.width)))
    x = graph.op("Add", f"{layer}.sum", x, graph.scaled(f"{layer}.branch", branch, alpha))
    x = graph.layer_norm(f"{layer}.attention_norm", x)
    named = config.feed_forward_activation
    activation = config.activation if named == "default" else named
    return graph.layer_norm(
        f"{layer}.feed_forward_norm", _feed_forward(graph, f"{layer}.feed_forward", x, activation, alpha)
    )


def _smolgen(graph: Graph, layer: str, x: str, config: ChessAttentionConfig) -> str:
    smolgen = config.smolgen
    if smolgen is None:
        raise ValueError("this network has no smolgen")
    activation = config.activation if smolgen.activation == "default" else smolgen.activation
    board = graph.reshape(
        f"{layer}.board", graph.dense(f"{layer}.compress", x, use_bias=False), (-1, 64 * smolgen.compressed)
    )
    for part in ("first", "second"):
        board = graph.activate(activation, graph.dense(f"{layer}.{part}", board))
        board = graph.layer_norm(f"{layer}.{part}_norm", board)
    rows = graph.reshape(f"{layer}.rows", board, (-1, smolgen.size))
    # The last matrix is the body's: all layers share it.
    kernel = graph.constant("body.smolgen.kernel", graph.weights["body.smolgen.kernel"])
    logits = graph.op("MatMul", f"{layer}.logits", rows, kernel)
    return graph.reshape(f"{layer}.logits.heads", logits, (-1, config.heads_per_layer, 64, 64))


# -- heads ---------------------------------------------------------------------------------------------------------


def rows_of_squares(graph: Graph, name: str, x: str, channels: int) -> str:
    """`[B, C, 8, 8]` as `[B * 64, C]`."""
    turned = graph.op("Transpose", f"{name}.turned", x, perm=[0, 2, 3, 1])
    return graph.reshape(f"{name}.rows", turned, (-1, channels))


def convolutional_policy(graph: Graph, layer: str, features: str, activation: str, *, frozen_norm: bool) -> str:
    """Logits `[B, 1858]` from features `[B, C, 8, 8]`."""
    x = graph.activate(activation, graph.convolution(f"{layer}.first", features, frozen_norm=frozen_norm))
    x = graph.convolution(f"{layer}.planes", x, frozen_norm=False)
    flat = graph.reshape(f"{layer}.flat", x, (-1, POLICY_PLANES * 64))
    return graph.op("Gather", f"{layer}.moves", flat, graph.constant(f"{layer}.map", convolution_map()), axis=1)


def attention_policy(
    graph: Graph, layer: str, head: ChessPolicyHeadConfig, rows: str, features: int, activation: str
) -> str:
    """Logits `[B, 1858]` from features `[B * 64, C]`."""
    width = head.width or head.embedding or features
    embedded = graph.activate(activation, graph.dense(f"{layer}.embedding", rows))
    query, key = (
        graph.reshape(f"{layer}.{part}.squares", graph.dense(f"{layer}.{part}", embedded), (-1, 64, width))
        for part in ("query", "key")
    )
    turned = graph.op("Transpose", f"{layer}.key.turned", key, perm=[0, 2, 1])
    logits = graph.scaled(f"{layer}.logits", graph.op("MatMul", f"{layer}.products", query, turned), 1 / sqrt(width))
    last = _cut(graph, f"{layer}.key.last_rank", key, [(1, 56, 64)])
    offsets = graph.dense(f"{layer}.promotion", graph.reshape(f"{layer}.last_rows", last, (-1, width)), use_bias=False)
    offsets = graph.reshape(f"{layer}.offsets", offsets, (-1, 1, 8, 4))
    pieces, knight = (
        _cut(graph, f"{layer}.{name}", offsets, [(3, *ends)]) for name, ends in (("qrb", (0, 3)), ("n", (3, 4)))
    )
    pushes = _cut(graph, f"{layer}.pushes", logits, [(1, 48, 56), (2, 56, 64)])
    pushes = graph.reshape(f"{layer}.pushes.pieces", pushes, (-1, 8, 8, 1))
    promotions = graph.op("Add", f"{layer}.promoted", graph.op("Add", f"{layer}.with_piece", pushes, pieces), knight)
    flat = graph.op(
        "Concat",
        f"{layer}.flat",
        graph.reshape(f"{layer}.plain", logits, (-1, 4096)),
        graph.reshape(f"{layer}.promotions", promotions, (-1, 192)),
        axis=1,
    )
    return graph.op("Gather", f"{layer}.moves", flat, graph.constant(f"{layer}.map", attention_map()), axis=1)


def value_hidden(
    graph: Graph, layer: str, features: str, channels: int, activation: str, frozen_norm: bool | None
) -> str:
    """What value and moves-left heads begin with, `[B, I]`; `frozen_norm` is None on an attention body."""
    if frozen_norm is None:
        squares = graph.activate(activation, graph.dense(f"{layer}.trunk.squares", features))
    else:
        x = graph.convolution(f"{layer}.trunk.squares", features, frozen_norm=frozen_norm)
        squares = rows_of_squares(graph, f"{layer}.trunk.squares", graph.activate(activation, x), channels)
    flat = graph.reshape(f"{layer}.trunk.flat", squares, (-1, 64 * channels))
    return graph.activate(activation, graph.dense(f"{layer}.trunk.hidden", flat))


def value_outputs(graph: Graph, layer: str, head: ChessValueHeadConfig, hidden: str) -> dict[str, str]:
    """Probabilities of win, draw and loss; of a head that has them, squared error `[B, 1]` and those of buckets."""
    found = {"wdl": graph.op("Softmax", f"{layer}.wdl.softmax", graph.dense(f"{layer}.wdl", hidden), axis=1)}
    if head.error:
        found["error"] = graph.activate("sigmoid", graph.dense(f"{layer}.error", hidden))
    if head.buckets:
        logits = graph.dense(f"{layer}.categorical", hidden)
        found["categorical"] = graph.op("Softmax", f"{layer}.categorical.softmax", logits, axis=1)
    return found


def _cut(graph: Graph, name: str, x: str, parts: list[tuple[int, int, int]]) -> str:
    """A slice by (axis, from, to)."""
    axes, begins, ends = ([part[place] for part in parts] for place in range(3))
    words = (("from", begins), ("to", ends), ("axes", axes))
    return graph.op("Slice", name, x, *(graph.constant(f"{name}.{word}", numbers) for word, numbers in words))
