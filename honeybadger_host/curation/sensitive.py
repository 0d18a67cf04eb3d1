"""Whether a text is about security, credentials or money: then a preference asks before it is followed (RB10). Pure."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_WORDS: Final = "|".join(files(__package__).joinpath("sensitive_words.txt").read_text("utf-8").split())
_SENSITIVE: Final = re.compile(
    rf"\b(?:{_WORDS})\b|[€$£¥]|密码|密碼|安全|权限|钱|付款|支付|银行|账户|发票|价格|购买|パスワード|秘密|権限|お金|支払|銀行|口座|請求|価格|購入",
    re.IGNORECASE,
)


def is_sensitive(text: str) -> bool:
    """Return whether a text has one of the words; too many are asked about rather than too few."""
    return _SENSITIVE.search(text) is not None
