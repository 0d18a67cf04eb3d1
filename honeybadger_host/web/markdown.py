"""Markdown of a conversation as HTML: every character escaped, nothing loaded, no address followed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from markupsafe import Markup

_MAX_DEPTH: Final = 4  # levels of quotations and lists; deeper ones are shown as text
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_HEADING: Final = re.compile(r"#{1,6} +(.*)")
_ITEM: Final = re.compile(r"( *)(?:[-*+]|(\d{1,9})[.)]) +(.*)")
_RULE_CELL: Final = re.compile(r":?-+:?")
# No content contains its own mark, so any text is read once.
_INLINE: Final = re.compile(
    r"\\(?P<literal>[!-/:-@\[-`{-~])"
    r"|`(?P<code>[^`\n]+)`"
    r"|\*\*(?P<strong>[^*\s](?:[^*]*[^*\s])?)\*\*"
    r"|~~(?P<deleted>[^~\s][^~]*)~~"
    r"|(?<![\w*])\*(?P<em>[^*\s](?:[^*]*[^*\s])?)\*(?![\w*])"
    r"|(?<![\w_])_(?P<em_too>[^_\s](?:[^_]*[^_\s])?)_(?![\w_])"
    r"|!?\[(?P<label>[^\[\]]+)\]\((?P<address>[^()\s]+)\)"
)
Visible = Callable[[str], Markup]


def markdown(text: str, visible: Visible) -> Markup:
    """Return a text as HTML: paragraphs, lists, quotes, tables, code, emphasis. Links show where they lead.

    Args:
        visible: escapes a text, see `rendering.visible`.
    """
    return Markup("\n").join(_blocks(text.split("\n"), visible, 0))


def _blocks(lines: Sequence[str], visible: Visible, depth: int) -> Iterator[Markup]:
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if not line.strip():
            pass
        elif fence := _FENCE.match(line):
            end = _after(lines, end, lambda each: not each.lstrip().startswith(fence[1]))
            yield Markup("<pre><code>{}</code></pre>").format(visible("\n".join(lines[at + 1 : end])))
            end += 1
        elif heading := _HEADING.fullmatch(line):
            yield Markup('<p class="heading">{}</p>').format(_inline(heading[1], visible))
        elif _is_rule(line):
            yield Markup("<hr>")
        elif _is_table(lines, at):
            end = _after(lines, at + 2, lambda each: "|" in each)
            yield _table(lines[at], lines[at + 2 : end], visible)
        elif line.startswith(">") and depth < _MAX_DEPTH:
            end = _after(lines, end, lambda each: each.startswith(">"))
            quoted = [each[1:].removeprefix(" ") for each in lines[at:end]]
            yield Markup("<blockquote>{}</blockquote>").format(Markup("").join(_blocks(quoted, visible, depth + 1)))
        elif (item := _ITEM.fullmatch(line)) and depth < _MAX_DEPTH:
            end = _after(lines, end, lambda each: bool(_ITEM.fullmatch(each)) or each.startswith("  "))
            yield _list(lines[at:end], item, visible, depth)
        else:
            end = _after(lines, end, _goes_on)
            parts = [_inline(each.strip(), visible) for each in lines[at:end]]
            yield Markup("<p>{}</p>").format(Markup("<br>").join(parts))
        at = end


def _after(lines: Sequence[str], at: int, belongs: Callable[[str], bool]) -> int:
    """Return the place of the first line that does not belong to a block."""
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def _goes_on(line: str) -> bool:
    """Return whether a line continues a paragraph."""
    begins_block = line.startswith(">") or _FENCE.match(line) or _HEADING.fullmatch(line) or _ITEM.fullmatch(line)
    return bool(line.strip()) and not begins_block and not _is_rule(line)


def _is_rule(line: str) -> bool:
    marks = line.replace(" ", "")
    return len(marks) > 2 and marks[0] in "-*_" and marks == marks[0] * len(marks)


def _list(lines: Sequence[str], first: re.Match[str], visible: Visible, depth: int) -> Markup:
    """Return a list. Lines indented further than its first item belong to the item above."""
    indent = len(first[1])
    items: list[list[str]] = []
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item is not None and (len(item[1]) <= indent or not items):
            items.append([item[3]])
        else:
            items[-1].append(line.removeprefix(" " * (indent + 2)))
    shown = Markup("").join(Markup("<li>{}</li>").format(_item(item, visible, depth)) for item in items)
    if first[2] is None:
        return Markup("<ul>{}</ul>").format(shown)
    return Markup('<ol start="{}">{}</ol>').format(int(first[2]), shown)


def _item(lines: Sequence[str], visible: Visible, depth: int) -> Markup:
    return _inline(lines[0], visible) + Markup("").join(_blocks(lines[1:], visible, depth + 1))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _is_table(lines: Sequence[str], at: int) -> bool:
    if "|" not in lines[at] or at + 1 == len(lines) or "|" not in lines[at + 1]:
        return False
    return all(_RULE_CELL.fullmatch(cell) for cell in _cells(lines[at + 1]))


def _table(head: str, rows: Sequence[str], visible: Visible) -> Markup:
    def row(line: str, cell: Markup) -> Markup:
        return Markup("<tr>{}</tr>").format(Markup("").join(cell.format(_inline(one, visible)) for one in _cells(line)))

    body = Markup("").join(row(line, Markup("<td>{}</td>")) for line in rows)
    top = row(head, Markup('<th scope="col">{}</th>'))
    return Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(top, body)


def _inline(text: str, visible: Visible) -> Markup:
    parts: list[Markup] = []
    at = 0
    for found in _INLINE.finditer(text):
        parts.append(visible(text[at : found.start()]))
        parts.append(_marked(found, visible))
        at = found.end()
    return Markup("").join((*parts, visible(text[at:])))


def _marked(found: re.Match[str], visible: Visible) -> Markup:
    if found["code"] is not None:
        return Markup("<code>{}</code>").format(visible(found["code"]))
    if found["literal"] is not None:
        return visible(found["literal"])
    if found["label"] is not None:
        label, address = _inline(found["label"], visible), visible(found["address"])
        return Markup('{} <span class="address">{}</span>').format(label, address)
    tags = (("strong", "strong"), ("deleted", "del"), ("em", "em"), ("em_too", "em"))
    tag, inner = next((tag, found[name]) for name, tag in tags if found[name] is not None)
    return Markup(f"<{tag}>{{}}</{tag}>").format(_inline(inner, visible))  # noqa: S704  one of three names
