"""Conversations with questions, and which turns hold the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from honeybadger_host.search.documents import Document, Piece
from honeybadger_host.search.language.analyzer import document_terms


@dataclass(frozen=True, slots=True)
class Turn:
    """One message.

    Args:
        at: seconds of the epoch, UTC; NaN when unknown.
    """

    session: str
    author: str
    text: str
    at: float = math.nan


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Args:
        evidence: places in `Conversation.turns`, rising; at least one.
        category: what kind of question, as shown in the table.
        now: when it was asked, seconds of the epoch; NaN for the end of the conversation.
        is_counted: False keeps it out of the averages (adversarial).
    """

    text: str
    evidence: tuple[int, ...]
    category: str
    now: float = math.nan
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with its questions."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def now(self, question: Question) -> datetime:
        """Return when a question is asked."""
        known = [turn.at for turn in self.turns if not math.isnan(turn.at)]
        moment = question.now if not math.isnan(question.now) else max(known, default=0.0)
        return datetime.fromtimestamp(moment, UTC)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_USERS = _names("""
    user human me 用户 用戶 使用者 ユーザー 사용자 usuario usuaria usuário utilisateur
    utilisatrice nutzer benutzer nutzerin utente gebruiker användare bruger bruker
    użytkownik kullanıcı пользователь користувач مستخدم المستخدم
    """)
# What the two sides of a conversation with a model are called in files.
_ASSISTANTS = _names("""
    assistant ai bot model agent chatbot 助手 助理 智能助手 ai助手 ai伴侣 アシスタント 어시스턴트 비서
    asistente assistente assistent assistentin asystent asistan ассистент помощник
    асистент مساعد المساعد
    """)


def documents_of(turns: Sequence[Turn]) -> list[Document]:
    """Return turns as the documents a group would have; numbers are their places.

    Who talks with an assistant is its user, whatever the name.
    """
    found = []
    has_assistant = any(turn.author.casefold() in _ASSISTANTS for turn in turns)
    sessions: dict[str, int] = {}
    for number, turn in enumerate(turns):
        name = turn.author.casefold()
        role = "assistant" if name in _ASSISTANTS else "user" if has_assistant or name in _USERS else ""
        piece = Piece("", turn.text, None if math.isnan(turn.at) else turn.at, turn.author, role)
        session = sessions.setdefault(turn.session, len(sessions) + 1)
        found.append(Document(number, "turn", document_terms(turn.text), piece, session))
    return found
