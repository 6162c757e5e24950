"""Training records as NumPy sees them: `np.frombuffer(inflated, V6_DTYPE)`.

Fields are lc0's, little-endian, without padding. `ludus_chess.upgrade_records` makes V7 of any version from 3 on.
"""

import numpy as np

POLICY_SIZE = 1858

_VALUES = ("root_q", "best_q", "root_d", "best_d", "root_m", "best_m", "plies_left", "result_q", "result_d")
_PLAYED = ("played_q", "played_d", "played_m", "orig_q", "orig_d", "orig_m")
_BYTES = (
    "castling_us_ooo",
    "castling_us_oo",
    "castling_them_ooo",
    "castling_them_oo",
    "side_to_move_or_enpassant",
    "rule50_count",
    "invariance_info",
    "dummy",
)

_V6_FIELDS: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = [
    ("version", "<u4"),
    ("input_format", "<u4"),
    ("probabilities", "<f4", (POLICY_SIZE,)),
    ("planes", "<u8", (104,)),
    *((name, "u1") for name in _BYTES),
    *((name, "<f4") for name in _VALUES + _PLAYED),
    ("visits", "<u4"),
    ("played_idx", "<u2"),
    ("best_idx", "<u2"),
    ("policy_kld", "<f4"),
    ("q_st", "<f4"),
]

V6_DTYPE = np.dtype(_V6_FIELDS)
V7_DTYPE = np.dtype(
    [*_V6_FIELDS, ("d_st", "<f4"), ("opp_played_idx", "<u2"), ("next_played_idx", "<u2"), ("reserved", "<f4", (8,))]
)
