"""Embeddings from any OpenAI-compatible endpoint, through the guarded client."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hardpoint import ExternalService
from hardpoint.interfaces import EmbeddingProvider
from hardpoint.net import Binding, parse_url

if TYPE_CHECKING:
    from hardpoint_builtin.config import EmbeddingsConfig

TIMEOUT: Final = 30.0
MAX_ANSWER: Final = 50_000_000


class EndpointEmbeddings(EmbeddingProvider):
    """`POST {url}` with `{"model", "input"}`; the key is bound to that host and never seen here."""

    def __init__(self, config: EmbeddingsConfig) -> None:
        assert config.url is not None
        assert config.model is not None
        url = parse_url(config.url)
        self._url = str(url)
        self.model = config.model
        self.dimension = config.dimension or 0
        self._sends_dimension = config.dimension is not None
        self._bindings: list[Binding] = []
        if config.secret is not None:
            self._bindings = [
                Binding(
                    config.secret,
                    hosts=(f"{url.host}:{url.port}",),
                    methods=("POST",),
                    allow_http=url.scheme == "http",
                )
            ]
        self._services: Any = None

    async def start(self, services: Any) -> None:
        self._services = services

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self._sends_dimension:
            body["dimensions"] = self.dimension
        async with self._services.http(self._bindings) as client:
            response = await client.request(
                "POST",
                self._url,
                headers=[("Content-Type", "application/json"), ("Accept", "application/json")],
                body=json.dumps(body).encode(),
                timeout=TIMEOUT,
                max_bytes=MAX_ANSWER,
            )
        if response.status != 200:
            raise ExternalService(
                f"the embedding endpoint answered {response.status}: {response.text[:200]}"
            )
        return self._read(response.text, len(texts))

    def _read(self, text: str, wanted: int) -> list[list[float]]:
        """The vectors in the order of the texts.

        Raises:
            ExternalService: The answer is not what was asked for.
        """
        try:
            data = sorted(json.loads(text)["data"], key=lambda item: item["index"])
            vectors = [[float(number) for number in item["embedding"]] for item in data]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ExternalService(f"the embedding endpoint gave no embeddings: {error}") from error
        if len(vectors) != wanted:
            raise ExternalService(f"the embedding endpoint gave {len(vectors)}, not {wanted}")
        self.dimension = self.dimension or len(vectors[0])
        for vector in vectors:
            if len(vector) != self.dimension or not all(map(math.isfinite, vector)):
                raise ExternalService(
                    f"the embedding endpoint gave a vector of {len(vector)} numbers, not"
                    f" {self.dimension}"
                )
        return vectors
