"""Turn a web page into Markdown: its main content, without what a browser does not show."""

from __future__ import annotations

import asyncio
import codecs
import html
import re
from typing import Any, Final

import attrs

from hardpoint.net import HttpResponse

HTML_TYPES: Final = frozenset(("text/html", "application/xhtml+xml"))

_TITLE = re.compile(r"<title\b[^<>]{0,200}>([^<]{0,2000})</title", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta\b[^<>]{0,200}charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_UNSEEN = re.compile(r"<(script|style|template|noscript)\b[^<>]*>[^<]*", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_BLANKS = re.compile(r"\s+")


@attrs.frozen
class Page:
    """What a reader sees of a page."""

    title: str
    markdown: str


async def read_page(response: HttpResponse) -> Page:
    """The page in a response, links made absolute. One that cannot be read gives its text."""
    text = page_text(response)
    markdown = await asyncio.to_thread(_convert, text, response.url)
    found = _TITLE.search(text)
    title = _BLANKS.sub(" ", html.unescape(found[1])).strip() if found else ""
    return Page(title, markdown)


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

    text = text.encode("utf-8", "replace").decode()
    # The narrowest reading that finds anything: some pages consist of what others call decoration.
    for preset, drop_navigation in (("aggressive", True), ("minimal", False)):
        options = _options(library, url, preset, drop_navigation)
        try:
            markdown = (library.convert(text, options).content or "").strip()
        except Exception:  # the library is foreign code, and the page was made by a stranger
            markdown = ""
        if markdown:
            return markdown
    return html.unescape(_BLANKS.sub(" ", _TAG.sub(" ", _UNSEEN.sub(" ", text)))).strip()


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
