"""Markdown of a conversation as HTML: every character escaped, nothing loaded, no address followed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

_MAX_DEPTH: Final = 64  # of blocks in blocks; a text with deeper ones, of which the library drops some, is shown plain
_MAX_BRACKETS: Final = 1000  # the library needs 0.1 ms for each one that begins no link
_NO_MARKDOWN: Final = ("html_block", "html_inline", "entity", "reference", "autolink")
_TAGS: Final = {
    "heading_open": '<p class="heading">',
    "heading_close": "</p>\n",
    "s_open": "<del>",
    "s_close": "</del>",
    "th_open": '<th scope="col">',
    "td_open": "<td>",
    "softbreak": "<br>",
    "hardbreak": "<br>",
    "hr": "<hr>\n",
    "link_open": "",
}
Visible = Callable[[str], Markup]


def markdown(text: str, visible: Visible) -> Markup:
    """Return a text as HTML: paragraphs, lists, quotes, tables, code, emphasis. Links show where they lead.

    A text that would take long is shown as it is.

    Args:
        visible: escapes a text, see `rendering.visible`.
    """
    plain = Markup("<p>{}</p>").format(visible(text))
    if text.count("[") > _MAX_BRACKETS:
        return plain
    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _MAX_DEPTH}).enable(["table", "strikethrough"])
    parser.disable(_NO_MARKDOWN)
    # An address is shown as it is, and never followed.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.renderer = _Renderer(visible)
    for name in _TAGS:
        parser.add_render_rule(name, _tag)
    tokens = parser.parse(text)
    if any(token.level > _MAX_DEPTH for token in tokens):
        return plain
    return Markup(parser.renderer.render(tokens, parser.options, {}).rstrip("\n"))  # noqa: S704  all is escaped


class _Renderer(RendererHTML):
    """Escapes with `visible`, writes no attribute that a text chooses, and shows addresses as text."""

    def __init__(self, visible: Visible) -> None:
        super().__init__()
        self._visible = visible

    def text(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return str(self._visible(tokens[idx].content))

    def code_inline(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f"<code>{self._visible(tokens[idx].content)}</code>"

    def fence(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        language = tokens[idx].info.strip()
        named = f'<p class="muted">{self._visible(language)}</p>' if language else ""
        return named + f"<pre><code>{self._visible(tokens[idx].content.removesuffix(chr(10)))}</code></pre>\n"

    code_block = fence

    def link_close(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return self._address(next(token for token in reversed(tokens[:idx]) if token.type == "link_open"), "href")

    def image(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return self.text(tokens, idx) + self._address(tokens[idx], "src")

    def _address(self, token: Token, name: str) -> str:
        shown = f"{token.attrGet(name)} {token.attrGet('title') or ''}".strip()
        return f' <span class="address">{self._visible(shown)}</span>'


def _tag(_: object, tokens: Sequence[Token], at: int, *more: Any) -> str:
    return _TAGS[tokens[at].type]
