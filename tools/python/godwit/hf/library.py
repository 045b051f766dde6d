"""transformers' modules, untyped: its releases differ in what they annotate. Importing this needs them."""
from __future__ import annotations

import importlib
from typing import Any

from ..errors import Error

try:
    importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    trainers: Any = importlib.import_module("transformers.trainer")
    trainer_callback: Any = importlib.import_module("transformers.trainer_callback")
except ModuleNotFoundError as missing:
    if missing.name not in ("torch", "transformers", "accelerate"):
        raise
    raise Error(
        f"godwit.hf needs {missing.name}, which this Python does not have: pip install 'transformers[torch]', or name "
        "another Python with --python"
    ) from None

if int(transformers.__version__.split(".")[0]) < 5:
    raise Error(f"godwit.hf is for transformers 5; this is {transformers.__version__}: pip install -U transformers")

__all__ = ["trainer_callback", "trainers", "transformers"]
