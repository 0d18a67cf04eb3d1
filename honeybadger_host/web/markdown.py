"""Text as HTML: every character escaped, hidden characters shown, nothing loaded, no address followed. Pure."""

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from honeybadger_agent.wording import count_of
from honeybadger_host.text.neutralise import HARMLESS, HIDDEN

_MAX_TEXT_CHARACTERS = 20_000  # of one text that a page shows
# A link, an image and HTML are shown as they are typed.
_AS_TYPED = ("link", "image", "html_block", "html_inline", "entity", "reference", "autolink")


def numbered(html: str) -> Markup:
    """Return HTML in which characters that hide or reorder others are shown as numbers.

    Args:
        html: escaped; no attribute has text of others.
    """
    if not HARMLESS.fullmatch(html):
        html = HIDDEN.sub(lambda hidden: f'<span class="hidden-character">U+{ord(hidden[0]):04X}</span>', html)
    return Markup(html)  # noqa: S704  all is escaped


def visible(text: object, most: int = _MAX_TEXT_CHARACTERS) -> Markup:
    """Return text as HTML; characters that hide or reorder others are shown as numbers."""
    whole = str(text)
    shown = numbered(escape(whole[:most]))
    if len(whole) > most:
        shown += Markup(' <span class="muted">… and {} more</span>').format(count_of(len(whole) - most, "character"))
    return shown


def shown_markdown(text: str) -> Markup:
    """Return Markdown as HTML; a long text is cut and says how much is missing."""
    shown = markdown(text[:_MAX_TEXT_CHARACTERS])
    left = len(text) - _MAX_TEXT_CHARACTERS
    return (
        shown if left <= 0 else shown + Markup('<p class="muted">… and {} more</p>').format(count_of(left, "character"))
    )


def markdown(text: str) -> Markup:
    """Return a text as HTML: paragraphs, lists, quotes, tables, code, emphasis."""
    parser = MarkdownIt("commonmark", {"breaks": True, "xhtmlOut": False}).enable(["table", "strikethrough"])
    parser.disable(_AS_TYPED).add_render_rule("fence", _code)
    tokens = parser.parse(text)
    if any(token.level + 1 >= parser.options.maxNesting for token in tokens):  # the library leaves out deeper blocks
        return numbered(f"<p>{escape(text)}</p>")
    for token in tokens:
        token.attrs.pop("style", None)  # of a column
        if token.type.startswith("heading"):  # one of the page would be below it
            token.tag = "p"
        if token.type == "heading_open":
            token.attrs["class"] = "heading"
    return numbered(parser.renderer.render(tokens, parser.options, {}).rstrip("\n"))


def _code(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """Return code with its language above it."""
    language = tokens[at].info.strip()
    named = f'<p class="muted">{escape(language)}</p>' if language else ""
    return named + renderer.code_block(tokens, at, options, env)
