"""Turn a web page into Markdown: its main content, without what a browser does not show."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Any, Final
from urllib.parse import urljoin

import attrs

from hardpoint.net import HttpResponse
from hardpoint_builtin.markup import text_of, tidy, title_of

HTML_TYPES: Final = frozenset(("text/html", "application/xhtml+xml"))

_META_CHARSET = re.compile(
    rb"<meta\b[^<>]{0,200}charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_BASE = re.compile(r"<base\b[^<>]{0,200}\bhref\s*=\s*[\"']?([^\"'\s<>]{1,2000})", re.IGNORECASE)


@attrs.frozen
class Page:
    """What a reader sees of a page."""

    title: str
    markdown: str


async def read_page(response: HttpResponse) -> Page:
    """The page in a response, links made absolute. One that cannot be read gives its text."""
    text = page_text(response)
    base = _BASE.search(text[:65_536])
    url = urljoin(response.url, base[1]) if base else response.url
    return Page(title_of(text), await asyncio.to_thread(_convert, text, url))


def page_text(response: HttpResponse) -> str:
    """The source of a page, by the character set of its header, its byte order mark or itself."""
    if "charset" in response.header("content-type").lower():
        return response.text
    if response.body.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
        charset = "utf-16"
    else:
        found = _META_CHARSET.search(response.body[:2048])
        charset = found[1].decode() if found else "utf-8"
    declared = (("content-type", f"text/html; charset={charset}"),)
    return attrs.evolve(response, headers=declared).text


def _convert(text: str, url: str) -> str:
    import html_to_markdown as library

    text = tidy(text.encode("utf-8", "replace").decode())
    # The narrowest reading that finds anything: some pages consist of what others call decoration.
    for preset, drop_navigation in (("aggressive", True), ("minimal", False)):
        options = _options(library, url, preset, drop_navigation)
        try:
            result = library.convert(text, options)
        except Exception:  # the library is foreign code, and the page was made by a stranger
            break
        if result.warnings:  # it gave up on a part, such as elements nested a thousand deep
            break
        if result.content and result.content.strip():
            return str(result.content.strip())
    return text_of(text)


def _options(library: Any, url: str, preset: str, drop_navigation: bool) -> Any:
    return library.ConversionOptions(
        base_url=url,
        extract_metadata=False,
        hidden_content="drop",
        inline_data_media="alt_text_only",
        preprocessing=library.PreprocessingOptions(
            enabled=True,
            preset=preset,
            remove_navigation=drop_navigation,
            # Whole sites stand inside one form element.
            remove_forms=False,
        ),
    )
