"""The index keeps vectors: what is indexed is embedded once, and what is gone has none."""

import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from honeybadger_agent.wire import SearchMemory
from honeybadger_host.context.recall import ContextRecall
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.search import search_memory
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.search.index import INDEX_FILE
from honeybadger_host.settings import Recall
from honeybadger_host.text.turn import Turn
from tests.host.hashing import HashEmbedder
from tests.host.indexes import ledger_of
from tests.host.search.indexed import NOW, Indexed, done


class World(Indexed):
    """A home with an index that embeds."""

    def __init__(self, home: Path) -> None:
        self.embedder = HashEmbedder()
        super().__init__(home, embedder=self.embedder)

    def settle(self) -> None:
        """Read and embed all that waits."""
        done(self.index.compare_all())
        done(self.index.work())
        while self.index.embed():
            pass

    def find(self, question: str, group: str = "main") -> dict[str, dict[str, float]]:
        """Return name of a hit -> what it earned from what."""
        files = GroupFiles(self.home)
        asked = Asked(group, "front", "main", "id", SearchMemory(query=question))
        found = search_memory(self.index, self.home / "no journal", files, asked, NOW)
        return {hit["id"]: hit["points"] for hit in found["hits"]}

    def vectors(self) -> list[tuple[int, str]]:
        with sqlite3.connect(self.home / INDEX_FILE) as db:
            rows = db.execute("SELECT doc, model FROM vectors ORDER BY doc").fetchall()
        db.close()
        return rows


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_memory_is_embedded_in_the_background(world: World) -> None:
    world.entry("e1", "an automobile")
    world.turns("main", "the physician called")
    assert world.find("car") == {}
    assert world.index.embed()
    assert world.index.status()["without_vector"] == 2
    assert not world.index.embed()
    assert world.index.status()["without_vector"] == 0
    assert sorted(world.embedder.embedded) == ["an automobile", "ann via front: the physician called"]
    assert {name: [*points] for name, points in world.find("car").items()} == {"e1": ["terms", "vector", "statement"]}
    assert world.find("doctor")["main#1"]["vector"] > 0


def test_another_model_embeds_everything_anew(world: World) -> None:
    world.entry("e1", "an automobile")
    world.settle()
    world.restart(HashEmbedder("other"))
    assert world.find("car") == {}
    assert world.vectors() == []
    world.settle()
    assert list(world.find("car")) == ["e1"]
    assert [model for _, model in world.vectors()] == ["other"]


def test_a_failing_model_leaves_words_and_is_logged_once(world: World) -> None:
    world.entry("e1", "an automobile")
    world.embedder.fails = True
    with capture_logs() as logs:
        assert list(world.find("automobile")) == ["e1"]
        assert not world.index.embed()
        assert list(world.find("automobile")) == ["e1"]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["vectors.failed"]
    assert world.index.status()["without_vector"] == 1
    world.embedder.fails = False
    world.settle()
    assert list(world.find("car")) == ["e1"]


def test_a_vector_alone_recalls_nothing(world: World) -> None:
    for number in range(14):
        world.entry(f"e{number}", "automobile " * (number + 1))
    for number in range(200):
        world.entry(f"o{number}", f"w{number} x{number}")
    world.entry("good", "Zoltan keeps the zither")
    world.settle()
    recaller = ContextRecall(world.index, ledger_of(world.home), GroupFiles(world.home), Recall(), 8000)

    def recalled(message: str) -> list[str]:
        found = recaller.recall("main", "main", message, [Turn(1, NOW, "assistant", "a", "a", "hm", 1)], NOW)
        return [one.id for one in found.recollections]

    assert len(world.find("car")) == 8
    assert recalled("car") == []
    assert recalled("car car car car zither") == ["good"]
