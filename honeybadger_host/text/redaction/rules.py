"""Rules for credentials, and those that are recognised by their own format: tokens, private keys, card numbers.

A rule has anchors that are found by fast string search, and a pattern that is tried only at an anchor.

Ordinary text has few anchors, so it costs little more than the search. A pattern reads a bounded distance from its
anchor, or only what it matches, so the time is linear in the length of the text.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

Match: TypeAlias = re.Match[str]
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """One credential: `text[start:end]`, without the words around it."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of credential is recognised.

    Args:
        anchors: beginnings of a match; in lower case for a rule that ignores case.
        pattern: matched at an anchor; the next anchor is sought after the match.
        span_of: the final check: returns where the secret is, None when it is not one.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    span_of: Callable[[Match], Span | None]

    def find(self, text: str, anchor: str, haystack: str) -> Iterator[Found]:
        """Yield the credentials that begin with an anchor.

        Args:
            haystack: the text, in lower case for a rule that ignores case.
        """
        at = haystack.find(anchor)
        while at >= 0:
            go_on = at + len(anchor)
            if match := self.pattern.match(text, at):
                go_on = max(go_on, match.end())
                if span := self.span_of(match):
                    go_on = max(go_on, span[1])
                    yield Found(self.kind, *span)
            at = haystack.find(anchor, go_on)


def secret_span(match: Match) -> Span:
    """Return the span of the group `secret`, or of the whole match when there is no such group."""
    return match.span("secret") if "secret" in match.re.groupindex else match.span()


def mixed_span(match: Match) -> Span | None:
    """Accept matches in which digits, capitals and small letters alternate: names may begin like a token."""
    start, end = span = secret_span(match)
    digit_changes, changes = _changes(match.string[start:end])
    return span if digit_changes and changes >= max(3, (end - start) // 8) else None


def is_random(value: str) -> bool:
    """Return whether a value looks random, whatever comes before it.

    In random letters and digits the kind of character changes at 45 of 100 places, in hexadecimal at 47; at 27 or more
    a digit is involved. In words joined by signs or capitals (`projects/db-2024/settingsForTest1`) it is far fewer.
    """
    digit_changes, changes = _changes(value)
    return digit_changes >= 3 and changes >= len(value) // 5


def _changes(value: str) -> tuple[int, int]:
    """Return the count of digits next to a letter, and that plus the count of capitals after a small letter."""
    digit_changes = sum(1 for _ in _DIGIT_CHANGE.finditer(value))
    return digit_changes, digit_changes + sum(1 for _ in _CASE_CHANGE.finditer(value))


_DIGIT_CHANGE = re.compile(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])")


# Every token, and a line of every private key, has this many characters without white space; few words have.
LONG_WORD = 20


def _rule(
    kind: str,
    anchors: str,
    rest: str,
    span_of: Callable[[Match], Span | None] = mixed_span,
    *,
    not_after: str = "[A-Za-z0-9]",
) -> Rule:
    """Return the rule for tokens that begin with one of `anchors` and continue as `rest`."""
    names = tuple(anchors.split())
    alternatives = "|".join(map(re.escape, names))
    return Rule(kind, names, re.compile(f"(?<!{not_after})(?:{alternatives}){rest}", re.ASCII), span_of)


SHAPES = (
    _rule("anthropic-key", "sk-ant-", r"[\w-]{20,}"),
    _rule("openai-key", "sk-", r"(?!ant-)[\w-]{20,}"),
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\w{30,}"),
    _rule("github-token", "github_pat_", r"\w{22,}"),
    _rule("gitlab-token", "glpat- gldt- glrt- glptt- glsoat- glcbt- glft- glagent-", r"[\w.-]{20,}"),
    _rule("slack-token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp-", r"[\w.%-]{16,}"),
    _rule("webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/(?P<secret>[\w/-]{20,})"),
    _rule("webhook", "discord.com/api/ discordapp.com/api/", r"(?:v\d+/)?webhooks/\d+/(?P<secret>[\w-]{30,})"),
    _rule("aws-key-id", "AKIA ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])", secret_span),
    _rule(  # the secret has no prefix, but is next to its id
        "aws-secret-key",
        "AKIA ASIA",
        r"[A-Z0-9]{16}\W[\s\S]{0,80}?(?<![A-Za-z0-9/+])(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    _rule("google-key", "AIza", r"[\w-]{35,}"),
    _rule("google-key", "ya29. GOCSPX-", r"[\w-]{20,}"),
    _rule("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9+/]{16,}={0,2}"),
    _rule("twilio-key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _rule("sendgrid-key", "SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    _rule("npm-token", "npm_", r"[A-Za-z0-9]{30,}"),
    _rule("pypi-token", "pypi-AgE", r"[\w-]{40,}"),
    _rule("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{30,}"),
    _rule("telegram-token", ":AA", r"[\w-]{32,}", not_after=r"\D"),  # after the number of the bot
    _rule("jwt", "eyJ", r"[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)+", secret_span, not_after=r"[\w-]"),
    _rule(
        "api-key",
        "gsk_ xai- pplx- r8_ dop_v1_ doo_v1_ shpat_ shpca_ shppa_ shpss_ lin_api_ ntn_ sbp_ figd_ glsa_ glc_ sntrys_ "
        "hvs. hvb. PMAK- dckr_pat_ rubygems_ ATATT3 sq0atp- sq0csp- tskey- nvapi- AGE-SECRET-KEY-",
        r"[\w-]{20,}",
        not_after=r"[\w-]",
    ),
    _rule("api-key", "key- dapi sk_", r"[0-9a-f]{32,}", not_after=r"[\w-]"),
    _rule("api-key", "secret_", r"[A-Za-z0-9]{43}(?!\w)", not_after=r"[\w-]"),
)

# ------------------------------------------------------------------------------------------------------ without anchor

# The first part of a Discord token is a decimal number in Base64, which has few possible letters.
_DISCORD = re.compile(
    r"[MNO](?<![\w-].)[DTjz][AEIMQUYcgk][w-z0-5](?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){3,5}[\w-]{0,3}={0,2}"
    r"\.[\w-]{5,8}\.[\w-]{27,}"
)


def discord_tokens(text: str) -> Iterator[Found]:
    """Yield the tokens of Discord's bots and users."""
    for match in _DISCORD.finditer(text):
        yield Found("discord-token", *match.span())


_PEM_MARK = re.compile(r"-----(?P<which>BEGIN|END) [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/=]{20}")
_BETWEEN = r"(?:\\[nr]|[\s>|,\"'])*+"
_PEM_BODY = re.compile(
    rf"{_BETWEEN}(?:[A-Za-z-]{{4,20}}: [^\n\\]{{0,100}}{_BETWEEN}){{0,4}}(?:[A-Za-z0-9+/=]{{20,}}+{_BETWEEN})+"
    r"(?:[A-Za-z0-9+/=]{1,19}\s*\Z)?"
)
_PUTTY_BODY = re.compile(
    r"Private-Lines: \d{1,4}\s+(?P<secret>(?:[A-Za-z0-9+/=]{20,}+\s*+)+(?:[A-Za-z0-9+/=]{1,19}(?![\w+/=-]))?)"
)


def private_keys(text: str) -> Iterator[Found]:
    """Yield PEM blocks from BEGIN to END, the rest of truncated ones, and PuTTY's keys."""
    marks = list(_PEM_MARK.finditer(text)) if "PRIVATE KEY" in text else []
    for number, mark in enumerate(marks):
        following = marks[number + 1] if number + 1 < len(marks) else None
        if mark["which"] == "END":
            continue
        if following is not None and following["which"] == "END":
            if _BASE64_RUN.search(text, mark.end(), following.start()):
                yield Found("private-key", mark.start(), following.end())
        elif body := _PEM_BODY.match(text, mark.end()):
            yield Found("private-key", mark.start(), mark.end() + len(body[0].rstrip()))
    if "Private-Lines: " in text:
        for match in _PUTTY_BODY.finditer(text):
            yield Found("private-key", match.start("secret"), match.start("secret") + len(match["secret"].rstrip()))


# The digit comes first, so that text without digits is skipped fast. Next to more digits it is another number.
CARD = re.compile(
    r"[2-6](?<![\w.,-].)(?<!\d[ -].)\d{3}(?:([ -]?)\d{4}\1\d{4}\1\d{4}|([ -]?)\d{6}\2\d{5})(?!\w|[ .,-]\d)"
)
_ISSUER = re.compile(r"(?:4|5[1-5]|2(?:2[2-9]|[3-6]|7[01]|720)|6(?:011|4[4-9]|5|2)|35)\d*|3[47]\d{13}")
_CARD_WORD = re.compile(
    r"\b(?:card|visa|master ?card|amex|american express|credit|debit|cc|(?:kredit)?karte|carte|tarjeta|carta|kort)\b",
    re.IGNORECASE,
)


def card_numbers(text: str) -> Iterator[Found]:
    """Yield payment card numbers that pass Luhn's check: grouped as on a card, or next to a word for a card.

    One of ten numbers passes the check by chance, so digits alone are taken for an order number.
    """
    for match in CARD.finditer(text):
        digits = re.sub(r"[ -]", "", match[0])
        if not _ISSUER.fullmatch(digits) or (len(digits) == 15) != digits.startswith(("34", "37")) or not _luhn(digits):
            continue
        is_grouped = len(digits) < len(match[0])
        if is_grouped or _CARD_WORD.search(text, max(0, match.start() - 60), match.end() + 30):
            yield Found("card-number", *match.span())


def _luhn(digits: str) -> bool:
    doubled = (int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(digits), start=1))
    return sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0
