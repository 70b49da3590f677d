"""How long a search of memory takes: `python -m tests.bench.memory [CHUNKS] [STORE]`.

The texts are made from words with the frequencies of natural language (Zipf), in documents of
twenty chunks. Vectors are random; what they mean plays no part in how long it takes.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hardpoint.config import Config, StoreConfig
from hardpoint.interfaces import EmbeddingProvider
from hardpoint.runtime import Runtime
from hardpoint_builtin.memory.documents import Documents
from hardpoint_builtin.memory.workspace import MemoryWorkspace

WORDS = 50_000
DIMENSION = 256


class RandomVectors(EmbeddingProvider):
    dimension = DIMENSION
    model = "random"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[random.gauss(0, 1) for _ in range(DIMENSION)] for _ in texts]


def word(rank: int) -> str:
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    made = ""
    rank += 26
    while rank:
        rank, place = divmod(rank, 26)
        made += letters[place]
    return made


async def main(chunks: int, store: str | None) -> None:
    rng = random.Random(1)
    vocabulary = [word(rank) for rank in range(WORDS)]
    weights = [1 / (rank + 2.7) for rank in range(WORDS)]
    folder = Path(tempfile.mkdtemp())
    where = StoreConfig(path=folder) if store is None else StoreConfig(url=store)
    runtime = Runtime(Config(store=where), in_memory=True)
    async with runtime:
        workspace = MemoryWorkspace(RandomVectors())
        await workspace.start(runtime.services)
        documents = workspace._started()
        started = time.perf_counter()
        written = 0
        while written < chunks:
            text = " ".join(rng.choices(vocabulary, weights, k=4200))
            _, new = documents.write("ana", f"d/{written}.md", text, 0.0, append=False)
            put_vectors(documents, rng, [number for number, _ in new])
            written += len(new)
        print(f"{written} chunks written in {time.perf_counter() - started:.0f} s")
        workspace._behind["ana"] = False
        for kind, provider in (("words", None), ("words and vectors", RandomVectors())):
            workspace._provider = provider
            await workspace.search("ana", "warm up")
            for name, low, high in (
                ("commonest", 0, 10),
                ("common", 10, 200),
                ("mixed", 10, 20_000),
                ("rare", 5000, WORDS),
            ):
                times = []
                for _ in range(100):
                    query = " ".join(vocabulary[rng.randrange(low, high)] for _ in range(4))
                    begun = time.perf_counter()
                    await workspace.search("ana", query, limit=5)
                    times.append(1000 * (time.perf_counter() - begun))
                times.sort()
                print(
                    f"{kind:18} {name:9} median {statistics.median(times):6.1f} ms"
                    f"   95 % {times[94]:6.1f} ms"
                )


def put_vectors(documents: Documents, rng: random.Random, chunks: Sequence[int]) -> None:
    vectors = [[rng.gauss(0, 1 / math.sqrt(DIMENSION)) for _ in range(DIMENSION)] for _ in chunks]
    documents.put_vectors("ana", "random", chunks, vectors)


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    asyncio.run(main(size, sys.argv[2] if len(sys.argv) > 2 else None))
