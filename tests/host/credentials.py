"""Texts with a credential in each, put together when they are asked for: no file of the project holds one."""

import base64
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_ALNUM = string.ascii_letters + string.digits
_URL_SAFE = _ALNUM + "-_"
_UPPER = string.ascii_uppercase + string.digits
_HEX = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Credential:
    """One text and what in it must not be kept.

    Args:
        kind: what it is, for the list of those that were missed.
        text: a sentence, a line of configuration, a file.
        secret: a part of `text`.
    """

    kind: str
    text: str
    secret: str


class Lot:
    """Draws what services hand out, by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        """Return characters drawn by lot; from letters and digits at least one of each, as any real one has."""
        while True:
            drawn = "".join(self._random.choices(alphabet, k=length))
            if alphabet in (_ALNUM, _URL_SAFE, _UPPER, _HEX) and (drawn.isalpha() or drawn.isdigit()):
                continue
            return drawn

    def number(self, digits: int) -> str:
        return str(self._random.randrange(10 ** (digits - 1), 10**digits))

    def pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def base64(self, size: int) -> str:
        return base64.b64encode(self._random.randbytes(size)).decode()

    def card(self, prefix: str, length: int) -> str:
        """Return a card number that passes Luhn's check."""
        body = prefix + "".join(self._random.choices(string.digits, k=length - len(prefix) - 1))
        doubled = (int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(body)))
        total = sum(n - 9 if n > 9 else n for n in doubled)
        return body + str(-total % 10)

    def pem(self, name: str, *, lines: int = 12) -> str:
        body = "\n".join(self.base64(48) for _ in range(lines))
        return f"-----BEGIN {name}-----\n{body}\n{self.base64(21)}\n-----END {name}-----"

    def jwt(self) -> str:
        head, body = (
            base64.urlsafe_b64encode(part).rstrip(b"=").decode()
            for part in (b'{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{self.number(10)}"}}'.encode())
        )
        return f"{head}.{body}.{self.of(_URL_SAFE, 43)}"

    def word(self) -> str:
        """Return a password as people make them."""
        word = self.pick("Blue", "horse", "Sommer", "dragon", "Katze", "Tango", "Lisbon", "winter")
        return (
            word
            + self.pick("", "!", "-", "_")
            + self.number(self._random.randint(2, 4))
            + self.pick("", "!", "?", "$x")
        )


def tokens(lot: Lot) -> Iterator[tuple[str, str]]:
    """Yield (kind, token) of everything that says what it is."""
    yield "anthropic", "sk-ant-" + "api03-" + lot.of(_URL_SAFE, 93) + "AA"
    yield "openai project", "sk-" + "proj-" + lot.of(_URL_SAFE, 120)
    yield "openai", "sk-" + lot.of(_ALNUM, 48)
    yield "openrouter", "sk-" + "or-v1-" + lot.of(_HEX, 64)
    yield "deepseek", "sk-" + lot.of(_HEX, 32)
    for letter in "pousr":
        yield f"github {letter}", f"gh{letter}" + "_" + lot.of(_ALNUM, 36)
    yield "github fine-grained", "github" + "_pat_" + lot.of(_ALNUM, 22) + "_" + lot.of(_ALNUM, 59)
    yield "gitlab", "glpat" + "-" + lot.of(_URL_SAFE, 20)
    yield "gitlab deploy", "gldt" + "-" + lot.of(_URL_SAFE, 20)
    yield "slack bot", "xoxb" + f"-{lot.number(12)}-{lot.number(12)}-{lot.of(_ALNUM, 24)}"
    yield "slack user", "xoxp" + f"-{lot.number(12)}-{lot.number(12)}-{lot.number(12)}-{lot.of(_HEX, 32)}"
    yield "slack app", "xapp" + f"-1-A{lot.of(_UPPER, 10)}-{lot.number(13)}-{lot.of(_HEX, 64)}"
    yield "aws access key id", "AK" + "IA" + lot.of(_UPPER, 16)
    yield "aws session key id", "AS" + "IA" + lot.of(_UPPER, 16)
    yield "google", "AI" + "za" + lot.of(_URL_SAFE, 35)
    yield "google oauth", "ya29" + ".a0" + lot.of(_URL_SAFE, 100)
    yield "google client secret", "GOC" + "SPX-" + lot.of(_URL_SAFE, 28)
    yield "stripe live", "sk" + "_live_" + lot.of(_ALNUM, 24)
    yield "stripe restricted", "rk" + "_live_" + lot.of(_ALNUM, 24)
    yield "stripe test", "sk" + "_test_" + lot.of(_ALNUM, 99)
    yield "stripe webhook", "wh" + "sec_" + lot.of(_ALNUM, 32)
    yield "twilio", "SK" + lot.of(_HEX, 32)
    yield "sendgrid", "SG" + "." + lot.of(_URL_SAFE, 22) + "." + lot.of(_URL_SAFE, 43)
    yield "npm", "npm" + "_" + lot.of(_ALNUM, 36)
    yield "pypi", "pypi-" + "AgEIcHlwaS5vcmc" + lot.of(_URL_SAFE, 150)
    yield "hugging face", "hf" + "_" + lot.of(string.ascii_letters, 30) + lot.of(_ALNUM, 4)
    yield "telegram bot", lot.number(10) + ":AA" + lot.of(_URL_SAFE, 33)
    yield (
        "discord bot",
        (base64.b64encode(lot.number(18).encode()).decode() + "." + lot.of(_URL_SAFE, 6) + "." + lot.of(_URL_SAFE, 38)),
    )
    yield "jwt", lot.jwt()
    yield "groq", "gsk" + "_" + lot.of(_ALNUM, 52)
    yield "xai", "xai" + "-" + lot.of(_ALNUM, 80)
    yield "digital ocean", "dop" + "_v1_" + lot.of(_HEX, 64)
    yield "shopify", "shp" + "at_" + lot.of(_HEX, 32)
    yield "databricks", "da" + "pi" + lot.of(_HEX, 32)
    yield "vault", "hv" + "s." + lot.of(_ALNUM, 24)
    yield "docker", "dckr" + "_pat_" + lot.of(_URL_SAFE, 27)
    yield "notion", "ntn" + "_" + lot.of(_ALNUM, 46)
    yield "linear", "lin" + "_api_" + lot.of(_ALNUM, 40)
    yield "mailgun", "key" + "-" + lot.of(_HEX, 32)
    yield "age", "AGE-SECRET-" + "KEY-1" + lot.of(_UPPER, 58)


_AROUND = (
    *("{}", "The key is {}.", "use `{}` for now", 'TOKEN="{}"', "Authorization: Bearer {}"),
    *("see https://example.com/?access_token={}&x=1", "(new: {})", "kept in .env\n{}\nand nowhere else"),
)


def credentials(seed: int) -> list[Credential]:
    """Return about 130 texts with a credential in each."""
    lot = Lot(seed)
    made = [
        Credential(kind, _AROUND[number % len(_AROUND)].format(token), token)
        for number, (kind, token) in enumerate(tokens(lot))
    ]

    def add(kind: str, text: str, draw: Callable[[], str]) -> None:
        secret = draw()
        made.append(Credential(kind, text.format(secret), secret))

    for name in ("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        add(name, "the deploy key:\n{}\nkeep it", partial(lot.pem, name))
    add("PGP PRIVATE KEY BLOCK", "{}", lambda: lot.pem("PGP PRIVATE KEY BLOCK"))
    block = lot.pem("PRIVATE KEY")
    made.append(
        Credential("private key in json", '{"private_key": "' + block.replace("\n", "\\n") + '"}', block.split("\n")[3])
    )
    made.append(Credential("private key cut off", block[:400], block[40:400].split("\n")[2]))
    made.append(Credential("private key quoted", "> " + block.replace("\n", "\n> "), block.split("\n")[5]))
    add(
        "slack webhook",
        "post to https://hooks.slack.com/services/T0" + "{}",
        lambda: lot.of(_UPPER, 8) + "/B" + lot.of(_UPPER, 9) + "/" + lot.of(_ALNUM, 24),
    )
    add("discord webhook", "https://discord.com/api/webhooks/" + lot.number(18) + "/{}", lambda: lot.of(_URL_SAFE, 68))
    add("aws secret beside its id", "AK" + "IA" + lot.of(_UPPER, 16) + " / {}", lambda: lot.of(_ALNUM + "/+", 40))
    add("aws secret", "aws_secret_access_key = {}", lambda: lot.of(_ALNUM + "/+", 40))
    add("twilio auth token", "Twilio auth token: {}", lambda: lot.of(_HEX, 32))
    add("azure account key", "AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net", lambda: lot.base64(64))
    add("api key", "api_key={}", lambda: lot.of(_HEX, 32))
    add("api key", "X-Api-Key: {}", lambda: lot.of(_ALNUM, 40))
    add("api key", "The API key for the weather service is {}.", lambda: lot.of(_HEX, 32))
    add("client secret", '"client_secret": "{}"', lambda: lot.of(_URL_SAFE, 40))
    add("secret key", "SECRET_KEY='{}'", lambda: lot.of(_ALNUM, 50))
    add("refresh token", "refresh token = {}", lambda: lot.of(_URL_SAFE, 64))
    add("api key in a table", "| API key | {} |", lambda: lot.of(_ALNUM, 32))
    add("bearer", "curl -H 'Authorization: Bearer {}' https://example.com", lambda: lot.of(_ALNUM, 32))
    add("basic", "Authorization: Basic {}", lambda: base64.b64encode(b"jo:" + lot.word().encode()).decode())
    for url in (
        "postgres://app:{}@db.internal:5432/app",
        "mongodb+srv://root:{}@cluster0.example.net/?retryWrites=true",
        "redis://:{}@cache:6379/0",
        "clone https://jo:{}@git.example.com/x.git please",
        "amqp://guest:{}@mq.example.com",
        "smtp://jo%40example.com:{}@mail.example.com:587",
    ):
        add("url", url, lambda: lot.of(_ALNUM, 14))
    for connection in (
        "Server=db;Database=app;User Id=sa;Password={};Encrypt=true",
        "host=db user=app password={} dbname=app",
        "jdbc:mysql://db/app?user=jo&password={}&ssl=true",
    ):
        add("connection string", connection, lot.word)
    for grouped in (lot.card("4", 16), lot.card("5412", 16), lot.card("2221", 16)):
        shown = " ".join(grouped[place : place + 4] for place in range(0, 16, 4))
        made.append(Credential("card", f"My number is {shown}, ok?", shown))
    amex = lot.card("37", 15)
    made.append(Credential("amex", f"Amex {amex[:4]} {amex[4:10]} {amex[10:]}", f"{amex[:4]} {amex[4:10]} {amex[10:]}"))
    add("card", "Book it on my Visa card {} please", lambda: lot.card("4", 16))
    add("card code", "and the CVV is {}", lambda: lot.number(3))
    for sentence in (
        *("My password is {}", "the wifi password is {}."),
        *("The password for the router is {}, do not tell anybody.", "password: {}", "Password = {}"),
        *("Wi-Fi password at grandma's: {}", "Remember that my Netflix password is '{}' since yesterday"),
        *("**Password:** `{}`", "| password | {} |", "user: jo, pass: {}", "export DB_PASSWORD={}"),
        *('{{"user": "jo", "password": "{}"}}', "<password>{}</password>", "the passphrase is {}"),
        *("changed my password to {} today", "Das Passwort lautet {}", "WLAN-Passwort: {}", "Kennwort ist {}"),
        *("Le mot de passe est {}", "mot de passe du wifi : {}", "La contraseña es {}", "contraseña del wifi: {}"),
        *("A senha é {}", "La password è {}", "Het wachtwoord is {}", "hasło: {}", "lösenord: {}", "пароль: {}"),
        *("şifre: {}", "密码是{}", "パスワードは{}です", "비밀번호는 {}"),
    ):
        add("password", sentence, lot.word)
    add("password of words", "passphrase: {}", lambda: "correct horse battery staple")
    add("password of words", "the password is {}", lambda: "correct-horse-battery-staple")
    add("quoted word", 'the password is "{}"', lambda: "swordfish")
    add("plain word in the environment", "POSTGRES_PASSWORD={}", lambda: "swordfish")
    add("plain word", "the password is {}", lambda: "swordfish")
    add("words in a sentence", "the password is {}", lambda: "correct horse battery staple")
    add(
        "seed phrase",
        "seed phrase: {}",
        lambda: "abandon ability able about above absent absorb abstract absurd abuse access accident",
    )
    for sentence in (
        *("My PIN is {}", "PIN: {}", "the pin for the garage is {}", "Meine PIN ist {}"),
        "changed the PIN to {}",
    ):
        add("pin", sentence, lambda: lot.number(4))
    return made
