"""The workspace of memory documents: hybrid search over words and, with a model, over meaning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from hardpoint import ConfigError, HardpointError, NotAuthorized
from hardpoint.interfaces import EmbeddingProvider, Workspace
from hardpoint_builtin.memory.documents import Document, Documents, Version
from hardpoint_builtin.memory.fusion import fuse
from hardpoint_builtin.memory.paths import clean_path, clean_prefix
from hardpoint_builtin.memory.words import MAX_QUERY, parse_query

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

CANDIDATES: Final = 60
"""How many chunks each ranking puts forward."""
BATCH: Final = 64
CATCH_UP: Final = 256
"""Chunks without a vector that one write or search gives theirs."""


class MemoryWorkspace(Workspace):
    """Markdown documents of many users in the core's store.

    Example:
        workspace = MemoryWorkspace()
        await workspace.start(runtime.services)
        await workspace.write("ana", "notes/tea.md", "Ana likes jasmine tea.")
        await workspace.search("ana", "what does Ana drink")
    """

    def __init__(self, embeddings: str | EmbeddingProvider | None = None) -> None:
        """Describe a workspace; `start` opens it.

        Args:
            embeddings: A provider, or the name that it is registered under; None takes the only one
                that is registered, if any; `"none"` searches by words alone.
        """
        self._wanted = embeddings
        self._documents: Documents | None = None
        self._provider: EmbeddingProvider | None = None
        self._clock: Any = None
        self._behind: dict[str, bool] = {}

    async def start(self, services: Any) -> None:
        """Meet the running core.

        Raises:
            ConfigError: The embedding provider is missing, or several could be meant.
        """
        self._documents = Documents(services)
        self._clock = services.clock
        self._provider = self._choose(services.extensions("embedding_provider"))
        if self._provider is not None:
            _require_numpy()

    def _choose(self, known: Mapping[str, EmbeddingProvider]) -> EmbeddingProvider | None:
        wanted = self._wanted
        if wanted == "none" or isinstance(wanted, EmbeddingProvider):
            return None if isinstance(wanted, str) else wanted
        if wanted is None and len(known) <= 1:
            return next(iter(known.values()), None)
        names = ", ".join(sorted(known)) or "none"
        if wanted is None:
            raise ConfigError(
                f"several embedding providers are registered ({names})",
                hint='choose one with [plugin.builtin.embeddings] provider = "NAME"',
            )
        if wanted not in known:
            raise ConfigError(
                f"[plugin.builtin.embeddings] provider = {wanted!r}: no plugin provides it;"
                f" registered: {names}"
            )
        return known[wanted]

    # documents ---------------------------------------------------------------------------------

    async def read(self, user_id: str, path: str) -> str | None:
        document = await self.document(user_id, path)
        return None if document is None else document.content

    async def document(
        self, user_id: str, path: str, version: int | None = None
    ) -> Document | None:
        """A document with its facts; an earlier one when a version is given."""
        return await self._run(Documents.read, user_id, clean_path(path), version)

    async def describe(self, user_id: str, path: str) -> Mapping[str, Any]:
        document = await self.document(user_id, path)
        if document is None:
            return {}
        return {
            "document_id": document.id,
            "version": document.version,
            "updated": document.updated,
        }

    async def versions(self, user_id: str, path: str) -> Sequence[Version]:
        """The history of a document, oldest first."""
        return await self._run(Documents.versions, user_id, clean_path(path))

    async def write(self, user_id: str, path: str, content: str, *, append: bool = False) -> None:
        """Write a document; it is on disk when this returns. What is appended begins a line.

        A model that cannot be reached delays only the vectors: they are made up for later.
        """
        _, new = await self._run(
            Documents.write, user_id, clean_path(path), content, self._clock.now(), append=append
        )
        if self._provider is not None:
            await self._embed_chunks(user_id, new)
            await self._catch_up(user_id)

    async def list(self, user_id: str, prefix: str = "") -> Sequence[str]:
        return await self._run(Documents.paths, user_id, clean_prefix(prefix))

    async def forget(self, user_id: str) -> int:
        """Delete everything of one user."""
        return await self._run(Documents.forget, user_id)

    # search ------------------------------------------------------------------------------------

    async def search(
        self, user_id: str, query: str, *, limit: int = 5
    ) -> Sequence[Mapping[str, Any]]:
        """The chunks that fit a query best; any text is a query.

        Returns:
            Mappings with `content`, `score` (1 is the best there can be), `path`, `document_id`,
            `chunk` (its place in the document), `is_hybrid_match` (found by words and by meaning).
        """
        searches = [self._by_words(user_id, query)]
        if self._provider is not None:
            searches.append(self._by_meaning(user_id, query))
        rankings = [ranking for ranking in await asyncio.gather(*searches) if ranking]
        hits = fuse(rankings, limit)
        chunks = await self._run(Documents.chunks, user_id, [hit.chunk for hit in hits])
        return [
            {
                "content": chunks[hit.chunk]["text"],
                "score": hit.score,
                "path": chunks[hit.chunk]["path"],
                "document_id": chunks[hit.chunk]["document_id"],
                "chunk": chunks[hit.chunk]["place"],
                "is_hybrid_match": hit.rankings > 1,
            }
            for hit in hits
            if hit.chunk in chunks  # rewritten meanwhile otherwise
        ]

    async def _by_words(self, user_id: str, query: str) -> Sequence[int]:
        found = await self._run(Documents.find, user_id, parse_query(query), CANDIDATES)
        return [chunk for chunk, _ in found]

    async def _by_meaning(self, user_id: str, query: str) -> Sequence[int]:
        assert self._provider is not None
        documents = self._started()
        await self._catch_up(user_id)
        if not query.strip():
            return []
        try:
            vector = (await self._provider.embed([query[:MAX_QUERY]]))[0]
        except (HardpointError, OSError) as error:
            # Words alone still find much; the next search tries again.
            logger.warning("memory: the embedding model failed: %s", error)
            return []
        found = await documents.tables.run(
            documents.vectors.search,
            user_id,
            self._provider.model,
            vector,
            CANDIDATES,
        )
        return [chunk for chunk, _ in found]

    # vectors -----------------------------------------------------------------------------------

    async def _catch_up(self, user_id: str) -> None:
        """Make up for vectors that are missing: the model was away, or another one was used."""
        if not self._behind.get(user_id, True):
            return
        assert self._provider is not None
        missing = await self._run(Documents.without_vector, user_id, self._provider.model, CATCH_UP)
        if await self._embed_chunks(user_id, missing):
            self._behind[user_id] = len(missing) == CATCH_UP

    async def _embed_chunks(self, user_id: str, chunks: Sequence[tuple[int, str]]) -> bool:
        """Give chunks their vectors; False when the model failed."""
        assert self._provider is not None
        for at in range(0, len(chunks), BATCH):
            some = chunks[at : at + BATCH]
            try:
                vectors = await self._embed([text for _, text in some])
            except (HardpointError, OSError) as error:
                logger.warning("memory: the embedding model failed: %s", error)
                self._behind[user_id] = True
                return False
            numbers = [number for number, _ in some]
            await self._run(Documents.put_vectors, user_id, self._provider.model, numbers, vectors)
        return True

    async def _embed(self, texts: Sequence[str]) -> Sequence[Sequence[float] | None]:
        assert self._provider is not None
        try:
            return await self._provider.embed(texts)
        except NotAuthorized:
            # A text that may not leave stands for none but itself; it is found by its words.
            if len(texts) == 1:
                return [None]
            return [(await self._embed([text]))[0] for text in texts]

    # inside ------------------------------------------------------------------------------------

    def _started(self) -> Documents:
        if self._documents is None:
            raise HardpointError(
                "this workspace has not been started",
                hint="enter the runtime first, or await workspace.start(runtime.services)",
            )
        return self._documents

    async def _run(
        self, method: Callable[Concatenate[Documents, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        documents = self._started()
        done: T = await documents.tables.run(method, documents, *args, **kwargs)
        return done


def _require_numpy() -> None:
    from importlib.util import find_spec

    if find_spec("numpy") is None:
        raise ConfigError(
            "an embedding provider is registered, and searching by meaning needs numpy",
            hint='pip install "hardpoint-builtin[embeddings]"'
            ' or set [plugin.builtin.embeddings] provider = "none"',
        )
