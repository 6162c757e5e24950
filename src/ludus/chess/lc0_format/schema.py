"""The fields of lc0's network files, by number, and the words for their enumerations."""

from __future__ import annotations

from ludus.chess.lc0_format.wire import Field, Schema

MAGIC = 0x1C0
ENCODINGS = {"LINEAR16": 1, "FLOAT16": 2, "BFLOAT16": 3, "FLOAT32": 4}
_ACTIVATIONS = ("default", "mish", "relu", "none", "tanh", "sigmoid", "selu", "swish", "relu_2")
ACTIVATIONS = {name: number for number, name in enumerate(_ACTIVATIONS)}
DEFAULT_ACTIVATIONS = {"relu": 0, "mish": 1}
INPUT_FORMATS = (1, 2, 3, 4, 5, 132, 133)
RAW_RULE50 = (1, 2, 3)
"""Input formats in which the engine shows a network the raw count of plies, and the loader that count / 99."""
NETWORK_SE, NETWORK_ATTENTION, NETWORK_MULTIHEAD = 4, 6, 7
OUTPUT_WDL, VALUE_WDL, MOVES_LEFT_NONE, MOVES_LEFT_V1 = 2, 2, 0, 1
POLICY_CONVOLUTION, POLICY_ATTENTION = 2, 3
EMBEDDING_DENSE = 2
POLICY_HEADS = ("vanilla", "optimistic_st", "soft", "opponent")
"""Heads that the format has fields for."""
VALUE_HEADS = ("winner", "q", "st")


def _layers(fields: str) -> dict[int, Field]:
    """Fields that are all layers: words with their numbers, `-` for a number that is not used."""
    return {place: Field(word, LAYER) for place, word in enumerate(fields.split(), 1) if word != "-"}


LAYER = Schema(
    "Layer",
    {
        1: Field("min_val", "float"),
        2: Field("max_val", "float"),
        3: Field("params", "bytes"),
        4: Field("encoding", "uint"),
        5: Field("dims", "uint", repeated=True),
    },
)
CONV = Schema("ConvBlock", _layers("weights biases bn_means bn_stddivs bn_gammas bn_betas"))
SE_UNIT = Schema("SEunit", _layers("w1 b1 w2 b2"))
RESIDUAL = Schema("Residual", {1: Field("conv1", CONV), 2: Field("conv2", CONV), 3: Field("se", SE_UNIT)})
SMOLGEN = Schema(
    "Smolgen",
    _layers("compress dense1_w dense1_b ln1_gammas ln1_betas dense2_w dense2_b ln2_gammas ln2_betas"),
)
MHA = Schema(
    "MHA",
    {
        **_layers("q_w q_b k_w k_b v_w v_b dense_w dense_b - rpe_q rpe_k rpe_v"),
        9: Field("smolgen", SMOLGEN),
    },
)
FFN = Schema("FFN", _layers("dense1_w dense1_b dense2_w dense2_b"))
ENCODER = Schema(
    "EncoderLayer",
    {
        **_layers("- ln1_gammas ln1_betas - ln2_gammas ln2_betas"),
        1: Field("mha", MHA),
        4: Field("ffn", FFN),
    },
)
_ATTENTION_POLICY = "ip_pol_w ip_pol_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b ip4_pol_w"
POLICY_HEAD = Schema(
    "PolicyHead",
    {
        **_layers(_ATTENTION_POLICY),
        8: Field("pol_encoder", ENCODER, repeated=True),
        9: Field("pol_headcount", "uint"),
        10: Field("policy1", CONV),
        11: Field("policy", CONV),
    },
)
_VALUE_LAYERS = "ip_val_w ip_val_b ip1_val_w ip1_val_b ip2_val_w ip2_val_b"
VALUE_HEAD = Schema(
    "ValueHead",
    {
        **_layers(f"{_VALUE_LAYERS} ip_val_err_w ip_val_err_b ip_val_cat_w ip_val_cat_b"),
        11: Field("value", CONV),
    },
)
_POLICY_ENTRY = Schema("PolicyHeadMap", {1: Field("key", "string"), 2: Field("value", POLICY_HEAD)})
_VALUE_ENTRY = Schema("ValueHeadMap", {1: Field("key", "string"), 2: Field("value", VALUE_HEAD)})
_POLICY_HEADS = Schema(
    "PolicyHeads",
    {
        **_layers("ip_pol_w ip_pol_b"),
        **{number: Field(name, POLICY_HEAD) for number, name in enumerate(POLICY_HEADS, 3)},
        7: Field("policy_head_map", _POLICY_ENTRY, repeated=True),
    },
)
_VALUE_HEADS = Schema(
    "ValueHeads",
    {
        **{number: Field(name, VALUE_HEAD) for number, name in enumerate(VALUE_HEADS, 1)},
        4: Field("value_head_map", _VALUE_ENTRY, repeated=True),
    },
)
_WEIGHT_LAYERS = (
    "- - - ip_pol_w ip_pol_b - ip1_val_w ip1_val_b ip2_val_w ip2_val_b - - ip1_mov_w ip1_mov_b ip2_mov_w ip2_mov_b "
    "ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b - ip4_pol_w - - ip_emb_w ip_emb_b - - ip_val_w ip_val_b ip_mov_w ip_mov_b "
    "ip_mult_gate ip_add_gate smolgen_w smolgen_b ip_emb_preproc_w ip_emb_preproc_b ip_emb_ln_gammas ip_emb_ln_betas - "
    "ip_emb_ffn_ln_gammas ip_emb_ffn_ln_betas"
)
WEIGHTS = Schema(
    "Weights",
    {
        **_layers(_WEIGHT_LAYERS),
        1: Field("input", CONV),
        2: Field("residual", RESIDUAL, repeated=True),
        3: Field("policy", CONV),
        6: Field("value", CONV),
        11: Field("policy1", CONV),
        12: Field("moves_left", CONV),
        21: Field("pol_encoder", ENCODER, repeated=True),
        24: Field("pol_headcount", "uint"),
        27: Field("encoder", ENCODER, repeated=True),
        28: Field("headcount", "uint"),
        41: Field("ip_emb_ffn", FFN),
        44: Field("value_heads", _VALUE_HEADS),
        45: Field("policy_heads", _POLICY_HEADS),
    },
)
_FORMAT_WORDS = (
    "input output network policy value moves_left default_activation smolgen_activation ffn_activation input_embedding"
)
NETWORK_FORMAT = Schema(
    "NetworkFormat", {number: Field(word, "uint") for number, word in enumerate(_FORMAT_WORDS.split(), 1)}
)
_VERSION = Schema("EngineVersion", {1: Field("major", "uint"), 2: Field("minor", "uint"), 3: Field("patch", "uint")})
_FORMAT = Schema("Format", {1: Field("weights_encoding", "uint"), 2: Field("network_format", NETWORK_FORMAT)})
_TRAINING = Schema(
    "TrainingParams",
    {
        1: Field("training_steps", "uint"),
        2: Field("learning_rate", "float"),
        3: Field("mse_loss", "float"),
        4: Field("policy_loss", "float"),
        5: Field("accuracy", "float"),
        6: Field("lc0_params", "string"),
    },
)
NET = Schema(
    "Net",
    {
        1: Field("magic", "fixed32"),
        2: Field("license", "string"),
        3: Field("min_version", _VERSION),
        4: Field("format", _FORMAT),
        5: Field("training_params", _TRAINING),
        10: Field("weights", WEIGHTS),
    },
)
"""ONNX models and backend caches (11, 12) are unknown fields: they stay in a file as they are."""
