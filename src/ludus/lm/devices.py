"""On which device a language model is trained, and whether it is there.

Invariant: `auto` always finds one; any other device is there, or refused in one sentence. Importing this loads no
PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ludus.errors import ConfigError

if TYPE_CHECKING:
    import torch


def find_device(wanted: str, *, rank: int = 0) -> torch.device:
    """The device of trainer `rank` for a `train.device`. Raises ConfigError if this machine does not have it.

    Several trainers of a machine have a GPU each, in order.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted == "cpu" or (wanted == "auto" and not count):
        return torch.device("cpu")
    if not count:
        built = "this PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no GPU"
        raise ConfigError(f"train.device: there is no {wanted} here ({built}); write cpu, or auto")
    number = int(wanted.partition(":")[2]) if ":" in wanted else rank % count
    if number >= count:
        there = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise ConfigError(f"train.device: there is no {wanted} here; there is {there}")
    return torch.device("cuda", number)
