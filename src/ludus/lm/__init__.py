"""Language models, for training and for inference: architectures, decoder, kernels, adapters and chat templates.

`decoder.py` is the first to read. What needs PyTorch is loaded when it is first asked for, so importing this room stays
light.
"""

from typing import TYPE_CHECKING

from ludus.lazy import import_later
from ludus.lm.adapters import adapter_names, adapter_shapes, check_adapter, init_adapter
from ludus.lm.chat import ChatFormat
from ludus.lm.language_shape import LanguageModelShape, write_model_folder
from ludus.lm.model_folder import find_model_folder
from ludus.lm.model_text import ModelText, load_decoder, load_model_text
from ludus.lm.teachers import TeacherModel, check_same_tokens
from ludus.lm.tiny_model import make_tiny_model

if TYPE_CHECKING:
    from ludus.lm.architectures import ARCHITECTURES, Architecture, NotCovered, read_architecture
    from ludus.lm.decoder import Generation, Operations, run_layer
    from ludus.lm.decoder_model import DecoderModel
    from ludus.lm.language_models import LanguageModel, load_language_model
    from ludus.lm.transformers_model import TransformersModel

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "ChatFormat",
    "DecoderModel",
    "Generation",
    "LanguageModel",
    "LanguageModelShape",
    "ModelText",
    "NotCovered",
    "Operations",
    "TeacherModel",
    "TransformersModel",
    "adapter_names",
    "adapter_shapes",
    "check_adapter",
    "check_same_tokens",
    "find_model_folder",
    "init_adapter",
    "load_decoder",
    "load_language_model",
    "load_model_text",
    "make_tiny_model",
    "read_architecture",
    "run_layer",
    "write_model_folder",
]

__getattr__ = import_later(__name__)
