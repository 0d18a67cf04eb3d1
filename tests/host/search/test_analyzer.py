"""Terms by which a text is found."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.search.language.analyzer import QUESTION_MARK, analyse_query, document_terms
from honeybadger_host.search.language.dates import dates_said


def asked(question: str) -> set[str]:
    return {form for term in analyse_query(question).terms for form in term.forms}


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("timezone", "the TimeZone of the host"),
        ("time-zone", "time_zone = UTC"),
        ("C#", "written in C#, later in Go"),
        ("Go", "written in C#, later in Go"),
        (".NET", "runs on .NET 8"),
        ("dotnet net", "runs on .NET 8"),
        ("node.js", "a Node.js service"),
        ("the UI", "UI is dark"),
        ("cafe", "Café Müller"),
        ("CAFÉ", "cafe muller"),
        ("muller", "Café Müller"),
        ("ｈｏｎｅｙ", "honey badgers"),
        ("went", "we go there"),
        ("children", "my child"),
        ("badger", "two badgers"),
        ("1500", "costs 1,500 euros"),
        ("3.11", "Python 3.11.7"),
        ("猫", "我的猫很可爱"),
        ("我的猫叫什么名字？", "猫叫咪咪"),
        ("東京で何をしましたか", "昨日は東京に行きました"),
        ("avion", "l’avion est en retard"),
        ("welche Hunde", "Der Hund und die Katze sind nicht da"),
        ("¿Cuáles son mis canciones?", "mi canción de la infancia es esta"),
        ("its", "it's its own"),
        ("Qu'est-ce qu'on a volé ?", "je me suis fait voler mes chaussures"),
        ("¿Cuánto ocupaban los registros?", "Eran los registros, ocupan 41 GB"),
        ("Кто написал книгу?", "эта книга мне нравится"),
        ("ماذا حدث للحاسوب؟", "لكن الحاسوب تعطل"),
        ("किताब कहाँ है?", "मेरी किताबें घर में हैं"),
        ("ข้าวผัด", "ฉันชอบกินข้าวผัดมาก"),
        ("Kitap nerede?", "kitaplar masanın üstünde ve çok ağır"),
    ],
)
def test_spelling_variants_find_each_other(question: str, text: str) -> None:
    assert asked(question) & set(document_terms(text)), (asked(question), document_terms(text))


@pytest.mark.parametrize(
    ("question", "text"), [("net", "a network"), ("C", "C#"), ("May I ask", "maypole"), ("the", "he")]
)
def test_what_is_something_else_is_not_found(question: str, text: str) -> None:
    assert not asked(question) & set(document_terms(text))


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("Qu'est-ce que c'est qu'un canapé ?", {"canap", "canape"}),
        ("Welches Instrument?", {"instrument"}),
        ("¿Quién es tu jefe?", {"jef", "jefe"}),
        ("Сколько было у вас времени?", {"времен"}),
        ("ماذا في المدرسة؟", {"مدرس"}),
        ("Die Hard", {"die", "hard"}),
    ],
)
def test_what_only_asks_leaves_a_question_in_any_language(question: str, left: set[str]) -> None:
    assert asked(question) - left == set()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("We saw the La Brea tar pits", "english"),
        ("Welches Instrument spielt sie?", "german"),
        ("Was isst Lena gern?", "german"),
        ("J'arrive", "french"),
        ("¿Dónde?", "spanish"),
        ("The Straße is closed", "english"),
    ],
)
def test_a_short_text_is_told_by_few_words(text: str, language: str) -> None:
    assert analyse_query(text).language == language


def test_a_question_of_stop_words_alone_keeps_them() -> None:
    assert "not" in asked("to be or not to be")


def test_a_question_among_documents_is_marked() -> None:
    assert document_terms("Really?")[-1] == QUESTION_MARK
    assert QUESTION_MARK not in document_terms("No? Yes.")


@pytest.mark.parametrize(
    "text", ["daha leri bir çok leri", "URL leri için daha iyi bir yol", "\u0640\u0640\u0640", "x \u0640 \u0627\u0644"]
)
def test_no_term_is_empty(text: str) -> None:
    """Whatever a stemmer or folding takes away: one empty term kept its group from being searched."""
    assert "" not in document_terms(text)
    assert "" not in asked(text)


@given(st.text(max_size=300))
def test_any_text_gives_terms_and_the_same_again(text: str) -> None:
    terms = document_terms(text)
    assert terms == document_terms(text)
    assert all(term and len(term) <= 200 and not term.isspace() for term in terms)
    analyse_query(text)


NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday


def said(question: str) -> list[tuple[str, str]]:
    """Return (first day, last day) of every stretch in 2025 and 2026."""
    found = []
    for span in dates_said(question, NOW, (2025, 2026)):
        first, end = (datetime.fromtimestamp(moment, UTC).date() for moment in span)
        found.append((first.isoformat(), (end - timedelta(days=1)).isoformat()))
    return found


@pytest.mark.parametrize(
    ("question", "stretch"),
    [
        ("Where was I on May 7th, 2026?", [("2026-05-07", "2026-05-07")]),
        ("in May", [("2025-05-01", "2025-05-31"), ("2026-05-01", "2026-05-31")]),
        ("in March 2026", [("2026-03-01", "2026-03-31")]),
        ("in 2025", [("2025-01-01", "2025-12-31")]),
        ("last Friday", [("2026-06-12", "2026-06-12")]),
        ("on Wednesday", [("2026-06-10", "2026-06-10")]),
        ("last week", [("2026-06-08", "2026-06-14")]),
        ("last month", [("2026-05-01", "2026-05-31")]),
        ("last year", [("2025-01-01", "2025-12-31")]),
        ("yesterday", [("2026-06-16", "2026-06-16")]),
        ("last night", [("2026-06-16", "2026-06-16")]),
        ("30 February 2026", []),
        ("may I march to Mars?", []),
        ("nothing", []),
    ],
)
def test_a_date_is_understood(question: str, stretch: list[tuple[str, str]]) -> None:
    assert said(question) == stretch


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    assert all(start < end for start, end in dates_said(text, NOW, (2025, 2026)))


@given(st.dates(date(2025, 1, 1), date(2026, 12, 31)))
def test_a_day_is_found_however_it_is_written(day: date) -> None:
    expected = [(day.isoformat(), day.isoformat())]
    for form in ("%d %B %Y", "%B %d, %Y", "%Y-%m-%d"):
        assert said(f"on {day:{form}}") == expected
