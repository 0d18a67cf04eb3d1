"""Credentials that are recognised by the words before them: `password is …`, `api_key=…`, `PIN: …`, `://user:…@host`.

These words often occur without a secret, so most of the rules here are exceptions: `the password is SHA-256-hashed`,
`password: required`, `password=get_password()`.
"""

import base64
import binascii
import re
from collections.abc import Callable

from honeybadger_host.text.redaction.rules import Match, Rule, Span, is_random

_QUOTE = "[\"'`“”„‘’«»「」*_\\\\]"
# Joins a word to its value: a colon, `is`, the bar of a table; quotes and emphasis may be on both sides.
_LINK = (
    rf"{_QUOTE}{{0,4}}\s{{0,3}}(?P<link>[:=：＝]{{1,2}}>?|->|→|[—–>]|(?<=\s)\|(?=\s)|(?:is|was|to|ist|lautet|war|est|es|era|é|è|jest|är|er"
    rf"|это)(?=\s)|[은는是为為は])[*_]{{0,3}}\s{{0,3}}(?P<quote>{_QUOTE}{{0,4}})"
)
# The purpose of a secret: `the password for the router is …`.
_GAP = (
    r"(?:\s\([^)\n]{1,32}\)|\s(?:for|of|on|at|to|from|i|we|he|she|they|you|für|vom|zum|pour|du|de|del|para|per|do|voor)"
    r"(?:\s[^\s:=]{1,32}+){1,5}?)??"
)
# A lookahead: when it is not a secret, the next keyword may be inside it.
_VALUE = r"(?=(?P<secret>[!-~\u00a1-\u024f\u0400-\u04ff]{4,200}))"

_WORD = (
    r"(?P<word>pass(?:w(?:or[dt]|d)|phrase|code|ord)|(?<=de )passe|(?<![A-Za-z])(?:pass|pw)|pwd|kennwort"
    r"|contrase[ñn]a|senha|wachtwoord|adgangskode|lösenord|has[łl]o|heslo|parola|salasana|jelszó|парол[ья]|şifre|密码|密碼"
    r"|パスワード|비밀번호)(?![A-Za-z])"
)
_WORD_ANCHORS = (
    "pass pw kennwort contrase senha wachtwoord adgangskode haslo heslo parola salasana "
    "lösenord hasło jelszó парол şifre 密码 密碼 パスワード 비밀번호"
)
_ANY_WORD = re.compile(_WORD, re.IGNORECASE)
_USER_BEFORE = re.compile(r"\b(?:user|login|uid|e?mail|account|host|benutzer|usuario)", re.IGNORECASE)
# The field before another one, as in a connection string: `host=db user=app `.
_FIELD_BEFORE = re.compile(r"(?:\A|[\s;&?\"'])\w{2,20}=[^\s,;&()]{1,64}[\s;&]+\Z")
_FUNCTION_WORD = re.compile(
    r"\b(?:the|of|in|to|is|a|an|and|or|it|was|are|be|for|by|at|on|your|my|not|must|with|as)\b", re.IGNORECASE
)
_INNER_SIGN = re.compile(r"[^\W_][!@#$%^&*+=~?€£§|\\]+[^\W_]")
_UNIT = re.compile(
    r"[- ]?(?:char|letter|digit|bit|byte|day|hour|min|sec|month|year|time|long|word|zeichen|ziffer|stellig"
    r"|caract|carat|px|%)",
    re.IGNORECASE,
)

# Values that are not secrets: masks, variables, types, adjectives.
_STANDS_FOR = re.compile(
    r"[*xX•.…_?#0:-]+|[<{(].*|\$[{(].*|(?-i:\$[A-Z_]{2,}|\$[a-z_]+)|%[A-Z_]+%|%[s(].*|\[redacted.*"
    r"|(?-i:[A-Z]+(?:_[A-Z0-9]+)+)"
    r"|(?:(?:your|my|the|some|new|old|dein|mein|tu|votre)[-_ ]?)?(?:pass(?:word|wd|phrase|code|wort|ord|e)?|pwd|pw"
    r"|secret|token|api[-_]?key|key|value|contrase[ñn]a|senha|kennwort)[-_ ]?(?:here|\d)?"
    r"|change[-_]?(?:me|it|this)|example|placeholder|dummy|redacted|hidden|masked|removed|none|null|nil|undefined|true"
    r"|false|yes|no|required|optional|invalid|incorrect|wrong|correct|strong|weak|empty|blank|unknown|unchanged|changed"
    r"|expired|missing|string|str|text|varchar|char|bytes|int|integer|object|user(?:name)?|foo|bar|baz|abc|todo|tbd|n/a"
    r"|same|below|above|here|protected|encrypted|hashed|salted|stored|set|reset|basic|bearer|login|email|prompt|ask|stdin"
    r"|file|env",
    re.IGNORECASE,
)

# Text after `password is` that is not a password: a length, an algorithm, a version, an address, a path, code, a rule.
_NAMES_A_THING = re.compile(
    rf"\d+(?:st|nd|rd|th|fa|[kmg]i?b)|\d+\+?{_UNIT.pattern}\w*(?:-\w+)*|\d+-[a-z]+(?:-[a-z]+)*"  # 2nd, 8chars, 30-day
    r"|(?:sha-?\d+|md\d|aes-?\d+|rsa-?\d+|base-?\d+|utf-?\d+|argon2\w*|pbkdf2|bcrypt\d*|oauth2?|x509|s3|k8s|ipv\d|ed25519"
    r"|1password|p12|pkcs\d+|u2f|fido2|(?:windows|ios|android|office|python|http)-?\d+|v?\d+(?:\.\d+)+|v\d+|q[1-4]|rfc-?\d+"
    r"|iso-?\d+)(?:[-_/:.,].*)?"
    r"|\d{4}-\d\d-\d\d.*|\d{1,2}:\d\d.*|[+-]?\d+(?:[.,]\d+)+%?"  # a date, a time, a number
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}"  # an address
    r"|(?:~|\.{1,2})?/\S+|[a-z][a-z0-9+.-]*://\S*|\S+\.(?:txt|md|toml|json|ya?ml|env|py|js|ts|go|rs|kdbx|gpg|asc|pem|ini|cfg)"
    r"|[a-z_][\w.]*[(\[{].*|[a-z_]\w*(?:\.[a-z_]\w*)+|[a-z]+\d*(?:_[a-z0-9]+)*_(?:pass\w*|pwd|pw|secret|token|key|env|arg)\d*"
    r"|&#?\w+;.*"
    r"|(?:required|nullable|string|confirmed"  # a rule for a form: `required|min:8`
    r"|(?:min|max|size|len|length|between|digits)\w*:\d{1,3}(?:,\d{1,3})?)(?:\|.*)?",
    re.IGNORECASE,
)


def _password_span(match: Match) -> Span | None:
    """Accept a password, but not a statement about passwords."""
    text, word, link, start = match.string, match["word"], match["link"], match.start("secret")
    before = text[max(0, match.start() - 80) : match.start()]
    if word.lower() in ("pass", "pw") and not (
        link in (":", "=") and (before.endswith(("_", "--")) or _USER_BEFORE.search(before))
    ):
        return None  # a boarding pass
    if (phrase := _PHRASE.match(text, start)) and _is_phrase(phrase[0]):
        is_clear = word.lower() == "passphrase" and (not link.isalpha() or bool(match["quote"]))
        if is_clear or "-" in phrase[0]:
            return phrase.span()
    value, is_quoted, end = _value(match)
    if len(value) < 4 or _STANDS_FOR.fullmatch(value):
        return None
    if value.endswith("'s") or text.startswith(("'s", "’s"), end) or (value.isdigit() and _UNIT.match(text, end)):
        return None
    if _NAMES_A_THING.fullmatch(value):
        return None
    has_digit = any(character.isdigit() for character in value)
    is_one = (
        (has_digit and len(value) >= (6 if link.isalpha() and not value.isdigit() else 4))
        or (bool(_INNER_SIGN.search(value)) and len(value) >= 6)
        or (link == "=" and word.isupper() and not match["quote"])  # DB_PASSWORD=swordfish
        or (link == "=" and _FIELD_BEFORE.search(before) is not None)  # host=db user=app password=swordfish
        or (is_quoted and _ANY_WORD.search(value) is None)
    )
    return (start, end) if is_one else None


def _value(match: Match) -> tuple[str, bool, int]:
    """Return the first word of the value, whether that word is quoted, and where the whole value ends."""
    text, value, start = match.string, match["secret"], match.start("secret")
    opening = match["quote"][-1:]
    if opening and opening not in "*_\\":
        end = text.find(_CLOSING.get(opening, opening), start + 1, start + 100)
        if end > 0 and "\n" not in (content := text[start:end].removesuffix("\\")):
            words = content.split(None, 1)
            return words[0], len(words) == 1, start + len(content)
    if cut := _NEXT_FIELD.search(value):
        value = value[: cut.start()]
    value = value.rstrip(".,;:)]}>\"'`«»|*\\")
    return value, False, start + len(value)


_CLOSING = {"“": "”", "„": "“", "«": "»", "‘": "’", "「": "」"}
_NEXT_FIELD = re.compile(r"[;,&]\w+ ?[=:]|</|\"[,}\]]")


_PHRASE = re.compile(r"[a-z]{3,12}(?:(?: [a-z]{3,12}){3,11}|(?:-[a-z]{3,12}){3,11})(?=[\"'`”“».!,;]|\s*(?:\n|\Z))")


def _is_phrase(words: str) -> bool:
    """Return whether none of the words is a function word, as sentences have."""
    return _FUNCTION_WORD.search(words.replace("-", " ")) is None


def _phrase_span(match: Match) -> Span | None:
    return match.span("secret") if _is_phrase(match["secret"]) else None


# A PIN is set to a number; a version, or a pin on a time line, is only pinned to one.
_SETS_PIN = re.compile(r"\b(?:change|set|reset|update)", re.IGNORECASE)


def _pin_span(match: Match) -> Span | None:
    before = match.string[max(0, match.start() - 40) : match.start()]
    if match["link"].lower() == "to" and not _SETS_PIN.search(before):
        return None
    is_postal = "code" in match[0].lower() and len(match["secret"]) == 6  # India calls its postal codes PIN
    return None if is_postal or _UNIT.match(match.string, match.end()) else match.span("secret")


_KEY_BEFORE = re.compile(
    r"(?:api|access|secret|private|signing|encryption|account|subscription|master|service|webhook|auth|client|storage|admin"
    r"|deploy)[ _-]?\Z",
    re.IGNORECASE,
)
_MARKER_BEFORE = re.compile(
    r"(?:page|next|sync|cursor|idempotency|continuation|design|change|e?tag|device|push)[ _-]?\Z", re.IGNORECASE
)


def _key_span(match: Match) -> Span | None:
    """Accept a random value after a word for a secret key, but not a cache key or a page token."""
    before = match.string[max(0, match.start() - 16) : match.start()]
    value = match["secret"]
    if match["word"].lower().startswith("key") and not _KEY_BEFORE.search(before):
        return None
    if _MARKER_BEFORE.search(before) or ("/" in value and "." in value):  # or a path
        return None
    value = value.rstrip(".")
    end = match.start("secret") + len(value)
    return (match.start("secret"), end) if is_random(value) else None


def _header_span(match: Match) -> Span | None:
    value = match["secret"]
    if match["scheme"].lower() == "bearer":
        return match.span("secret") if len(value) >= 16 and is_random(value) else None
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return match.span("secret") if b":" in decoded and decoded.isascii() else None


def _url_span(match: Match) -> Span | None:
    value = match["secret"]
    if _STANDS_FOR.fullmatch(value) or value.startswith(("$", "{", "<", "%", "[")):
        return None
    return match.span("secret")


def _rule(kind: str, anchors: str, pattern: str, span_of: Callable[[Match], Span | None]) -> Rule:
    return Rule(kind, tuple(anchors.split()), re.compile(pattern, re.IGNORECASE), span_of)


_NO_MORE_DIGITS = r"(?![\d.,-]?\d|[\w%])"

WORDS = (
    _rule("password", _WORD_ANCHORS, f"{_WORD}{_GAP}{_LINK}{_VALUE}", _password_span),
    _rule(
        "seed-phrase",
        "phrase mnemonic",
        rf"(?:(?:(?<=seed )|(?<=recovery )|(?<=backup ))phrase|mnemonic){_GAP}{_LINK}"
        r"(?P<secret>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})",
        _phrase_span,
    ),
    _rule(
        "pin",
        "pin",
        rf"(?<![a-z])pin(?:[ -]?(?:code|number|nummer))?{_GAP}{_LINK}(?P<secret>\d{{4,8}}){_NO_MORE_DIGITS}",
        _pin_span,
    ),
    _rule("card-code", "cvv cvc", rf"cv[vc]2?(?: code)?{_LINK}(?P<secret>\d{{3,4}}){_NO_MORE_DIGITS}", _pin_span),
    _rule(
        "api-key",
        "key token secret credential",
        rf"(?P<word>keys?|tokens?|secret(?:[ _-]?(?:access[ _-]?)?key)?|credentials?)(?![A-Za-z]){_GAP}{_LINK}"
        r"(?=(?P<secret>[A-Za-z0-9+/_.~-]{16,}+={0,2}))",
        _key_span,
    ),
    _rule(
        "authorization",
        "bearer basic",
        r"(?P<scheme>bearer|basic)\s{1,3}[\"']?(?P<secret>[A-Za-z0-9+/_.~-]{8,}+={0,2})",
        _header_span,
    ),
    _rule("url-password", "://", r"://[^\s/:@\"'<>]{0,100}:(?P<secret>[^\s/\"'<>]{1,200})@(?=[\w\[.-])", _url_span),
)
