"""Screens texts for credentials before they become memory, by the setting `security.secrets`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from honeybadger_agent.wire import Refusal
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.log import log
from honeybadger_host.settings import SecretsMode
from honeybadger_host.text.neutralise import is_blank, neutralise, one_line
from honeybadger_host.text.redaction import find_secrets, redact, redact_below


@dataclass(frozen=True, slots=True)
class Screen:
    """Redacts or refuses; `off` lets everything pass. Methods raise Refusal in the mode `refuse`."""

    mode: SecretsMode

    def text(self, asked: Asked, member: str, text: str, *, heading: str = "") -> tuple[str, Mapping[str, int]]:
        """Return a member's text, unchanged or neutralised and without its credentials, and the changes made.

        Args:
            member: its name in the request, e.g. `payload.content`.
            heading: the heading above it.
        """
        if self.mode == "off":
            return text, {}
        neutral = neutralise(text)  # before looking: a hidden character inside a secret would hide it
        clean, kinds = redact_below(heading, neutral.text) if heading else redact(neutral.text)
        if not kinds:
            return text, {}
        self._report(asked, member, kinds)
        by_kind = {f"secrets/{kind}": count for kind, count in kinds.items()}
        return clean, {**neutral.changed, "secrets": sum(kinds.values()), **by_kind}

    def clean(self, asked: Asked, member: str, text: str, *, heading: str = "") -> tuple[str, Counter[str]]:
        """Return a member's text neutralised and without credentials, and the changes made; see `text`."""
        neutral = neutralise(text)
        text, changed = self.text(asked, member, neutral.text, heading=heading)
        return text, Counter(neutral.changed) + Counter(changed)

    def data(self, asked: Asked, member: str, text: str) -> tuple[str, Counter[str]]:
        """Return JSON byte for byte, or rewritten without its credentials, and the counts of changes."""
        try:
            value, changed = self.tree(asked, member, orjson.loads(text), is_shown=False)
            return (orjson.dumps(value).decode() if changed else text), changed
        except (RecursionError, TypeError):
            raise Refusal("invalid", f"{member} is nested too deep: 250 levels at most", field=member) from None

    def tree(
        self, asked: Asked, member: str, value: Any, *, heading: str = "", is_shown: bool = True
    ) -> tuple[Any, Counter[str]]:
        """Return a JSON value with every text cleaned, a member's under its name, and the changes made.

        Args:
            is_shown: False: a text without credentials stays as it is, with its hidden characters.
        """
        clean = self.clean if is_shown else self.text
        match value:
            case str():
                made, changes = clean(asked, member, value, heading=heading)
                return made, Counter(changes)
            case list():
                items = [self.tree(asked, member, item, heading=heading, is_shown=is_shown) for item in value]
                return [item for item, _ in items], sum((changed for _, changed in items), Counter())
            case dict():
                names = [clean(asked, member, name) for name in value]
                items = [
                    self.tree(asked, member, item, heading=name, is_shown=is_shown) for name, item in value.items()
                ]
                members = {name: item for (name, _), (item, _) in zip(names, items, strict=True)}
                return members, sum((Counter(changed) for _, changed in (*names, *items)), Counter())
            case int() | float() if not isinstance(value, bool):  # a PIN may come as a number
                made, changes = clean(asked, member, str(value), heading=heading)
                return (made if changes else value), Counter(changes)
            case _:
                return value, Counter()

    def path(self, member: str, name: str) -> None:
        """Raise Refusal if the name of a file or folder looks like a credential, also in the mode `redact`."""
        if self.mode != "off" and (kind := _kind_in(name)):
            raise Refusal("invalid", f"{member} looks like a credential ({kind}): choose another name", field=member)

    def note(self, asked: Asked, section: str, content: str) -> tuple[str, str, Mapping[str, int]]:
        """Return section and content of a note, and the counts of changes. Text below `Wi-Fi password` is a secret."""
        if self.mode == "off":
            return section, content, {}
        whole = f"{section}: {content}"
        if not find_secrets(whole if whole.isascii() else neutralise(whole).text):  # nothing hides in ASCII
            return section, content, {}
        section, changed = self.text(asked, "payload.section", section)
        content, more = self.text(asked, "payload.content", content, heading=section)
        return section, content, Counter(changed) + Counter(more)

    def name(self, asked: Asked, member: str, name: str) -> str:
        """Return a name that is shown between brackets, without credentials."""
        clean, changed = self.text(asked, member, name)
        return clean.translate({ord("["): "(", ord("]"): ")"}) if changed else name

    def _report(self, asked: Asked, member: str, kinds: Mapping[str, int]) -> None:
        if self.mode == "refuse":
            why = f"{member} holds what looks like a credential ({', '.join(kinds)})"
            what_now = "take it out, or say where it is kept, and send it again; nothing was saved"
            raise Refusal("invalid", f"{why}: {what_now}", field=member)
        log.warning(
            "secret.redacted",
            group=asked.group,
            sender=asked.sender,
            id=asked.request_id,
            member=member,
            kinds=dict(kinds),
        )


@dataclass(slots=True)
class CleanTexts:
    """The texts of one request, cleaned of hidden characters, forgeries and credentials. Methods raise Refusal.

    Args:
        changed: kind of change -> count, over all texts.
    """

    asked: Asked
    screen: Screen
    changed: Counter[str] = field(default_factory=Counter)

    def line(self, member: str, text: str) -> str:
        """Return a text as one visible line."""
        neutral = one_line(self.lines(member, text))
        self.changed.update(neutral.changed)
        return not_blank(member, neutral.text)

    def said(self, member: str, text: str, *, heading: str = "") -> str:
        """Return a text of any number of lines that says something."""
        return not_blank(member, self.lines(member, text, heading=heading))

    def lines(self, member: str, text: str, *, heading: str = "") -> str:
        """Return a text of any number of lines, which may be blank."""
        clean, changed = self.screen.clean(self.asked, member, text, heading=heading)
        self.changed.update(changed)
        return clean

    def tree(self, member: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object of the sender's with every text in it cleaned."""
        clean: dict[str, Any]
        clean, changed = self.screen.tree(self.asked, member, value)
        self.changed.update(changed)
        return clean

    def name(self, member: str, name: str) -> str:
        """Return a name unchanged: it must have no hidden characters and not look like a credential."""
        if one_line(name).text != name or is_blank(name):
            why = "must be one visible line, without spaces around it and without hidden characters"
            raise Refusal("invalid", f"{member} {why}", field=member)
        self.screen.path(member, name)
        return name


def with_neutralised(result: dict[str, Any], changed: Mapping[str, int]) -> dict[str, Any]:
    """Return a result that lists the changes made to the texts of its request, if any."""
    return {**result, "neutralised": dict(changed)} if changed else result


def not_blank(member: str, text: str) -> str:
    """Return a text. Raises Refusal if nothing of it is visible.

    Args:
        member: its name in the request, e.g. `payload.content`.
    """
    if is_blank(neutralise(text).text):
        raise Refusal("invalid", f"{member} is blank: nothing visible is left of it", field=member)
    return text


def check_size(member: str, size: int, limit: int, unit: str) -> None:
    """Raise Refusal if something would become too large.

    Args:
        member: the part of the request that makes it so, e.g. `payload.tags`.
    """
    if size > limit:
        why = f"with {member} it would have {size} {unit}, the limit is {limit}: send less"
        raise Refusal("too_large", f"{why}; nothing was changed", field=member)


@lru_cache(maxsize=1024)
def _kind_in(name: str) -> str | None:
    found = find_secrets(name)
    return found[0].kind if found else None
