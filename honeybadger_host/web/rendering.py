"""Pages from templates: all text is escaped, hidden characters are shown, times and addresses have one form."""

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from honeybadger_agent.wording import count_of, in_words, shortened
from honeybadger_host.handlers.entries.listing import MAX_BEGINNING
from honeybadger_host.journal.reader import why_never_undone
from honeybadger_host.ops.gist import WORDS, gist_of
from honeybadger_host.text.time_stamps import parse_time, time_stamp
from honeybadger_host.web.markdown import shown_markdown, visible

MAX_OF_A_KIND = 5  # things of one kind on a page that lists several kinds
# Lines of both texts; the difference of longer ones is not shown: hostile texts of 20,000 lines each take 3 s.
_MAX_COMPARED_LINES = 4000


class Shown(NamedTuple):
    """Values that every page has.

    Args:
        group: the page's group; None: it has none.
        may_write: whether forms are shown.
    """

    group: str | None = None
    may_write: bool = False


def page(
    name: str, shown: Shown, *, code: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Return a page made from a template."""
    text = _environment().get_template(name).render(shown=shown, **values)
    return HTMLResponse(text, code, headers)


def problem(
    status: int,
    what: str,
    now_what: str,
    *,
    retry_after: int | None = None,
    shown: Shown | None = None,
    typed: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """Return a page with an error and its remedy.

    Args:
        retry_after: seconds until the browser reloads it.
        typed: texts of a form that was refused.
    """
    return page(
        "problem.html",
        shown or Shown(may_write=True),  # not called read-only: nobody knows yet who asks
        code=status,
        headers={} if retry_after is None else {"Retry-After": str(retry_after)},
        what=what,
        now_what=now_what,
        retry_after=retry_after,
        typed=typed or {},
    )


def first_words(text: str) -> str:
    """Return the beginning of a text on one line; a note without its dash."""
    return shortened(" ".join(text.removeprefix("- ")[:400].split()), MAX_BEGINNING)


def when(at: str | int | None) -> Markup:
    """Return a time in UTC as HTML; `page.js` shows it in the reader's zone.

    Args:
        at: RFC 3339, or milliseconds since the epoch.
    """
    if at is None or at == "":
        return Markup('<span class="muted">unknown</span>')
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else parse_time(at).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return escape(at)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(time_stamp(moment, "auto"), moment)


def href(*parts: str, **query: object) -> str:
    """Return an address of this page; empty values of the query are left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "", False)}
    return path + (f"?{urlencode(given, doseq=True)}" if given else "")


def compared(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]] | None:
    """Return the difference of two texts as pairs of sign and line, or None if they are too long."""
    if len(before) + len(after) > _MAX_COMPARED_LINES:
        return None
    return [(line[:1], line[1:]) for line in [*difflib.unified_diff(before, after, lineterm="", n=2)][2:]]


def bars(parts: Sequence[tuple[str, float]], whole: float) -> list[tuple[str, float, int, int]]:
    """Return the parts of a bar, one after another: title, value, begin and width in thousandths of the bar.

    Parts that are larger than the whole together fill it.
    """
    whole = max(whole, sum(value for _, value in parts), 1)
    found: list[tuple[str, float, int, int]] = []
    at = 0.0
    for title, value in parts:
        found.append((title, value, round(1000 * at / whole), max(round(1000 * value / whole), 1 if value else 0)))
        at += value
    return found


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("honeybadger_host.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "markdown": shown_markdown,
        "visible": visible,
        "when": when,
        "in_words": in_words,
        "first_words": first_words,
        "in_ascii": lambda text: ascii(text)[1:-1],
        # of a change in the journal
        "gist": lambda row: gist_of(row, MAX_BEGINNING),
        "did": lambda row: WORDS[row.kind].did,
        "can_undo": lambda row: why_never_undone(row) is None,
    }
    environment.globals |= {"href": href, "bars": bars, "count_of": count_of}
    return environment
