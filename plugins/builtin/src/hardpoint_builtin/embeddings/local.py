"""A small model on this machine: static word vectors, averaged.

The package `wordllama` ships the weights (16 MB) and the tokenizer. Only its files are used, so
nothing is downloaded and its own dependencies are not imported. A text takes well under a
millisecond. It knows little beyond English.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from hardpoint import ConfigError
from hardpoint.interfaces import EmbeddingProvider

_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_NEEDED: Final = ("numpy", "safetensors", "tokenizers", "wordllama")


class LocalEmbeddings(EmbeddingProvider):
    """Loaded at the first text."""

    dimension = 256
    model = "wordllama-l2-supercat-256"

    def __init__(self) -> None:
        """Find the model.

        Raises:
            ConfigError: The extra is not installed.
        """
        missing = [name for name in _NEEDED if find_spec(name) is None]
        if missing:
            raise ConfigError(
                f"[plugin.builtin.embeddings] provider = 'local' needs {', '.join(missing)}",
                hint='pip install "hardpoint-builtin[embeddings]"',
            )
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        import numpy as np

        tokenizer, weights = self._load()
        vectors: list[list[float]] = []
        for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
            known = [number for number in encoded.ids if number < len(weights)]
            mean = weights[known].mean(axis=0) if known else np.zeros(self.dimension, np.float32)
            vectors.append(mean.tolist())
        return vectors

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                import numpy as np
                from safetensors.numpy import load_file
                from tokenizers import Tokenizer

                folder = _folder()
                tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
                weights = load_file(str(folder / _WEIGHTS))["embedding.weight"]
                self._loaded = tokenizer, weights.astype(np.float32)
            return self._loaded


def _folder() -> Path:
    # Importing the package would import all that it needs and change the logging.
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
