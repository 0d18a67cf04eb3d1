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


@dataclass(slots=True)
class Texts:
    """The texts of one request on their way into memory: without credentials, hidden characters and forgeries.

    Methods raise Refusal, in the mode `refuse` for any credential.

    Args:
        mode: `off` lets credentials pass.
        changed: kind of change -> count, over all texts.
    """

    asked: Asked
    mode: SecretsMode
    changed: Counter[str] = field(default_factory=Counter)

    def of_record(self) -> Texts:
        """Return the same for one record of the request, with separate counts."""
        return Texts(self.asked, self.mode)

    def text(self, member: str, text: str, *, heading: str = "") -> str:
        """Return a member's text, unchanged, or neutralised and without its credentials.

        Args:
            member: its name in the request, e.g. `payload.content`.
            heading: the heading above it.
        """
        if self.mode == "off":
            return text
        neutral = neutralise(text)  # before looking: a hidden character inside a secret would hide it
        clean, kinds = redact_below(heading, neutral.text) if heading else redact(neutral.text)
        if not kinds:
            return text
        if self.mode == "refuse":
            raise Refusal(
                "invalid",
                f"{member} holds what looks like a credential ({', '.join(kinds)}): take it out, or say where it is "
                "kept, and send it again; nothing was saved",
                field=member,
            )
        log.warning(
            "secret.redacted",
            group=self.asked.group,
            sender=self.asked.sender,
            id=self.asked.request_id,
            member=member,
            kinds=dict(kinds),
        )
        by_kind = {f"secrets/{kind}": count for kind, count in kinds.items()}
        self.changed.update({**neutral.changed, "secrets": sum(kinds.values()), **by_kind})
        return clean

    def lines(self, member: str, text: str, *, heading: str = "") -> str:
        """Return a text of any number of lines, neutralised; it may be blank."""
        neutral = neutralise(text)
        self.changed.update(neutral.changed)
        return self.text(member, neutral.text, heading=heading)

    def said(self, member: str, text: str, *, heading: str = "") -> str:
        """Return a text of any number of lines that says something."""
        return not_blank(member, self.lines(member, text, heading=heading))

    def line(self, member: str, text: str) -> str:
        """Return a text as one visible line."""
        neutral = one_line(self.lines(member, text))
        self.changed.update(neutral.changed)
        return not_blank(member, neutral.text)

    def tree(self, member: str, value: Any, *, heading: str = "", is_shown: bool = True) -> Any:
        """Return a JSON value with every text in it cleaned, a member's under its name.

        Args:
            is_shown: False: a text without credentials stays as it is, with its hidden characters.
        """
        clean = self.lines if is_shown else self.text
        match value:
            case str():
                return clean(member, value, heading=heading)
            case list():
                return [self.tree(member, item, heading=heading, is_shown=is_shown) for item in value]
            case dict():
                return {
                    clean(member, name): self.tree(member, item, heading=name, is_shown=is_shown)
                    for name, item in value.items()
                }
            case int() | float() if not isinstance(value, bool):  # a PIN may come as a number
                digits = str(value)
                made = clean(member, digits, heading=heading)
                return value if made == digits else made
            case _:
                return value

    def data(self, member: str, text: str) -> str:
        """Return JSON byte for byte, or rewritten without its credentials."""
        try:
            value = orjson.loads(text)
            clean = self.tree(member, value, is_shown=False)
            return text if clean == value else orjson.dumps(clean).decode()
        except (RecursionError, TypeError):
            raise Refusal("invalid", f"{member} is nested too deep: 250 levels at most", field=member) from None

    def note(self, section: str, content: str) -> tuple[str, str]:
        """Return section and content of a note. Text below `Wi-Fi password` is a secret."""
        whole = neutralise(f"{section}: {content}").text
        if self.mode == "off" or not find_secrets(whole):  # one look instead of two
            return section, content
        section = self.text("payload.section", section)
        return section, self.text("payload.content", content, heading=section)

    def path(self, member: str, name: str) -> None:
        """Raise Refusal if the name of a file or folder looks like a credential, also in the mode `redact`."""
        if self.mode != "off" and (kind := _kind_in(name)):
            raise Refusal("invalid", f"{member} looks like a credential ({kind}): choose another name", field=member)

    def name(self, member: str, name: str) -> str:
        """Return a name unchanged: it must have no hidden characters and not look like a credential."""
        if one_line(name).text != name or is_blank(name):
            raise Refusal(
                "invalid",
                f"{member} must be one visible line, without spaces around it and without hidden characters",
                field=member,
            )
        self.path(member, name)
        return name

    def shown_name(self, member: str, name: str) -> str:
        """Return a name that is shown between brackets, without credentials."""
        clean = self.text(member, name)
        return name if clean == name else clean.translate({ord("["): "(", ord("]"): ")"})


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
        raise Refusal(
            "too_large",
            f"with {member} it would have {size} {unit}, the limit is {limit}: send less; nothing was changed",
            field=member,
        )


@lru_cache(maxsize=1024)
def _kind_in(name: str) -> str | None:
    found = find_secrets(name)
    return found[0].kind if found else None
