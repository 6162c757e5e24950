"""lc0's network files, both ways."""

from ludus.chess.lc0_format.network_file import (
    Lc0Network,
    compressed,
    network_bytes,
    parse_network,
    read_network,
    write_network,
)
from ludus.chess.lc0_format.tensors import omitted_heads

__all__ = [
    "Lc0Network",
    "compressed",
    "network_bytes",
    "omitted_heads",
    "parse_network",
    "read_network",
    "write_network",
]
