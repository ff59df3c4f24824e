"""Watching PyTorch: the tensor under the wrappers of `torch.func`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradwright.frameworks import torch_private as private
from gradwright.observe.readers import ArrayReader


class TorchReader(ArrayReader):
    """Reads tensors of any device; under vmap a record tells of all rows together."""

    def array(self, tensor: Any) -> np.ndarray:
        """The tensor's numbers as an array."""
        plain = private.bare(tensor)
        with private.outside_transforms(), torch.no_grad():
            plain = plain.detach()
            plain = plain if plain.layout == torch.strided else plain.to_dense()
            plain = plain.cpu().resolve_conj().resolve_neg()
            return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
