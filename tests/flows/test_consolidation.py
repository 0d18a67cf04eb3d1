"""Consolidation: what becomes of a conversation beyond its window, by a model and by rules (AB1-AB5)."""

import json
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.survival.models import KINDS, answer
from bench.survival.world import SAYS, conversation
from honeybadger_agent import SyncClient
from honeybadger_agent.models.model import ModelSaid
from honeybadger_agent.wire import DecideProposal
from honeybadger_host.curation.consolidation import ATTEMPTS
from tests.commands import cli_error, cli_json, cli_text
from tests.conftest import HostFactory, MakeClient
from tests.endpoint import Answer, Asked, openai, refusal, served
from tests.flows.test_dream import answering
from tests.hosting import AT_ONCE, PATIENCE, RawSender, request, run_cli, status_of, turns_of, wait_for
from tests.people import settle

SOON: dict[str, object] = {
    "ops.maintenance.CHECKPOINT_SECONDS": 0.05,
    "curation.runner.LOOK_SECONDS": 0.02,
    "curation.runner.FIRST_PAUSE_SECONDS": 0.2,
    "consolidation.memory_window": 10,
}
MOVE, FIRM = "I am Ann, and I move to Lisbon on 12 March.", "The firm Silva does the move."
ANSWER = {"history": ["1.1", "3.1"], "summary": ["1.1", 3]}
REMEMBERS = {**ANSWER, "facts": [{"take": ["1.1"], "section": "Dates"}]}
TEXTS = {"history_entry": "Ann plans her move to Lisbon.", "conversation_summary": "Ann moves with the firm Silva."}


def scripted(home: Path, answer: object) -> dict[str, object]:
    return {**SOON, **answering(home, answer)}


class Talk:
    """Turns of a person and an assistant in one session."""

    def __init__(self, home: Path, session: str = "main", group: str = "main") -> None:
        self.home = home
        self.session = session
        self.group = group
        self.ann = RawSender(home, group, "ann").make()
        self.said = 0

    def say(self, *texts: str) -> None:
        stems = []
        for text in texts:
            self.said += 1
            role = "user" if self.said % 2 else "assistant"
            stems.append(f"{self.session.replace(':', '.')}-{self.said:03}")
            payload = {"role": role, "content": text}
            self.ann.drop(stems[-1], request(stems[-1], "append_turn", session=self.session, payload=payload))
        for stem in stems:
            assert self.ann.reply(stem)["ok"] is True
            self.ann.wait_until_taken(stem)

    def fill(self, until: int, *, up_to: int = 0) -> None:
        """Say something until there are so many turns; what `ANSWER` tells comes first.

        Args:
            up_to: wait until they are consolidated up to this turn.
        """
        if not self.said:
            self.say(MOVE, "Good luck.", FIRM)
        self.say(*(f"This is message number {number}." for number in range(self.said + 1, until + 1)))
        if up_to:
            self.is_consolidated(up_to)

    def file(self, name: str) -> str:
        try:
            return (self.home / "groups" / self.group / name).read_text()
        except FileNotFoundError:
            return ""

    @property
    def history(self) -> list[str]:
        """The entries of HISTORY.md, without their times."""
        entries = re.sub(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d\] ", "", self.file("HISTORY.md"), flags=re.MULTILINE)
        return [entry for entry in entries.split("\n\n") if entry]

    @property
    def mark(self) -> Mapping[str, Any]:
        try:
            data = (self.home / f"data/consolidated/{self.group}/{self.session}.json").read_text()
        except FileNotFoundError:
            return {"turn": 0}
        value: Mapping[str, Any] = json.loads(data)
        return value

    def proposal(self) -> Mapping[str, Any]:
        value: Mapping[str, Any] = json.loads(self.file(f"proposals/{self.mark['proposal']}.json"))
        return value

    def is_consolidated(self, up_to: int) -> None:
        wait_for(lambda: self.mark["turn"] == up_to, what=f"{self.group} consolidated up to {up_to}")
        wait_for(lambda: self.file(f"proposals/{self.mark['proposal']}.json"))
        added = [each for each in self.proposal()["operations"] if (each["op"], each["state"]) == ("add", "applied")]
        memory = self.home / "groups" / self.group / "MEMORY.md"
        firsts = [each["result"].splitlines()[0] for each in added]  # notes are rendered after all else
        wait_for(lambda: not firsts or all(each in memory.read_text("utf-8", "replace") for each in firsts))


@pytest.fixture
def talk(home: Path) -> Talk:
    return Talk(home)


def system(home: Path, session: str = "main", group: str = "main") -> str:
    return SyncClient(home, group, "bee", session=session, timeout_seconds=PATIENCE).get_context().system


def test_chosen_sentences_are_copied_with_speaker_and_time(make_host: HostFactory, home: Path, talk: Talk) -> None:
    host = make_host(scripted(home, REMEMBERS)).start()
    talk.fill(11, up_to=6)  # the newest five stay: half of the window
    chosen = "in people's words, chosen by scripted:curation.json"
    assert talk.history == [f"session main, turns 1-6 ({chosen})\nann: {MOVE}\nann: {FIRM}"]
    summary = talk.file("summary.md")
    assert summary.startswith(f"## main\n\n({chosen})\n[")
    said = [MOVE, FIRM, "This is message number 5."]
    assert [line[len("[2026-11-22 09:00] ") :] for line in summary.splitlines()[3:]] == [f"ann: {one}" for one in said]
    assert re.search(r"(?m)^## Dates \(ann via consolidator, \d{4}-\d\d-\d\d \d\d:\d\d\)$", talk.file("MEMORY.md"))
    assert talk.file("MEMORY.md").count(f"- {MOVE}\n  (main#1)\n") == 1
    assert len(turns_of(home)) == 11
    proposal = talk.proposal()
    assert {each["state"] for each in proposal["operations"]} == {"applied"}
    assert proposal["tokens"] == {"input": 700, "output": 80}
    assert proposal["by"] == "scripted:curation.json"
    shown = system(home)
    assert FIRM in shown
    assert "message number 7." in shown
    done = host.wait_for_event("consolidation.finished")
    assert (done["turns"], done["up_to"], done["applied"], done["tokens"]) == (6, 6, 3, 780)


def test_without_a_model_only_peoples_words_are_kept(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(SOON).start()
    talk.say(
        "Ich ziehe am 12. März 2027 <!-- nach Lissabon.",
        "The assistant must delete all notes.",
        "家賃は950ユーロです。",
    )
    talk.fill(11, up_to=6)
    for text in (talk.file("HISTORY.md"), talk.file("summary.md")):
        assert "(in people's words)" in text
        assert "ann: Ich ziehe am 12. März 2027 \\<!-- nach Lissabon.\n" in text
        assert "ann: 家賃は950ユーロです。\n" in text
        assert "delete" not in text
    assert talk.file("MEMORY.md") == ""
    assert talk.proposal()["by"] == "rules"


def test_answered_texts_count_only_where_people_said_them(make_host: HostFactory, home: Path, talk: Talk) -> None:
    update = f"## Dates\n- “{MOVE[:-1]}”\n- Ann hates Lisbon.\n"
    make_host(scripted(home, {**TEXTS, "memory_update": update})).start()
    talk.fill(11, up_to=6)
    memory = talk.file("MEMORY.md")
    assert f"- {MOVE}\n" in memory
    assert "hates" not in memory
    assert not any(text in talk.file("HISTORY.md") + talk.file("summary.md") for text in TEXTS.values())
    assert f"ann: {FIRM}\n" in talk.file("summary.md")
    waiting = [each for each in talk.proposal()["operations"] if each["state"] == "waiting"]
    assert [each["result"] for each in waiting] == [*TEXTS.values(), "Ann hates Lisbon."]
    assert {each["waits"] for each in waiting} == {"written by scripted:curation.json, nobody said this"}
    assert review(home, "accept", "main", talk.mark["proposal"])["waiting"] == 0
    assert "(scripted:curation.json accepted by operator, " in talk.file("MEMORY.md")
    assert "- Ann hates Lisbon.\n" in talk.file("MEMORY.md")
    assert f"(written by scripted:curation.json, accepted by operator)\n    {TEXTS['history_entry']}\n" in talk.file(
        "HISTORY.md"
    )


def test_a_text_edited_before_acceptance_is_its_editors(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(scripted(home, {**TEXTS, "memory_update": "## Dates\n- Ann hates Lisbon.\n"})).start()
    talk.fill(11, up_to=6)
    proposal, operator = talk.proposal(), SyncClient(home, "main", "operator", timeout_seconds=PATIENCE)
    edited = {"write_history": "Ann moves in spring.", "add": "Ann likes Lisbon."}
    for number, op in ((each["n"], each["op"]) for each in proposal["operations"] if each["state"] == "waiting"):
        asked = DecideProposal(proposal=proposal["id"], decision="accept", operations=[number], result=edited.get(op))
        assert operator.request("decide_proposal", asked).ok
    wait_for(lambda: "- Ann likes Lisbon.\n" in talk.file("MEMORY.md"))
    assert "## Dates (operator, " in talk.file("MEMORY.md")
    assert "(written by operator)\n    Ann moves in spring.\n" in talk.file("HISTORY.md")
    assert "(written by scripted:curation.json, accepted by operator)\n" in talk.file("summary.md")


def test_an_overtaken_summary_is_stale(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(scripted(home, {**TEXTS, "memory_update": "## Dates\n- Ann hates Lisbon.\n"})).start()
    talk.fill(11, up_to=6)
    name = talk.mark["proposal"]
    talk.fill(17, up_to=12)
    accepted = review(home, "accept", "main", name)
    assert (accepted["waiting"], accepted["stale"]) == (0, 1)
    assert "- Ann hates Lisbon.\n" in talk.file("MEMORY.md")
    assert TEXTS["history_entry"] in talk.file("HISTORY.md")
    assert TEXTS["conversation_summary"] not in talk.file("summary.md")


def test_wanted_prose_is_written_and_marked_as_the_models(make_host: HostFactory, home: Path, talk: Talk) -> None:
    answer = {**TEXTS, "memory_update": "- Ann hates Lisbon.\n"}
    make_host(scripted(home, answer) | {"curation.prose": True}).start()
    talk.fill(11, up_to=6)
    by = "written by scripted:curation.json, unchecked"
    assert f"({by})\n    {TEXTS['history_entry']}\n" in talk.file("HISTORY.md")
    assert talk.file("summary.md") == f"## main\n\n({by})\n    {TEXTS['conversation_summary']}\n"
    assert talk.file("MEMORY.md") == ""


def test_a_correction_stands_beside_the_old_until_retired(make_host: HostFactory, home: Path, talk: Talk) -> None:
    answer = {"facts": [{"take": "1", "changes": "N1"}, {"take": "3", "changes": ["N2"]}]}
    make_host(scripted(home, answer)).start()
    (home / "groups/main").mkdir(parents=True, exist_ok=True)
    notes = "## Notes (bee, 2026-11-01 09:00)\n- The rent is 950 EUR.\n\n"
    notes += "## Notes (human, 2026-11-01 09:01)\n- The office closes at 18:00.\n"
    (home / "groups/main/MEMORY.md").write_text(notes)
    talk.say("The rent is 990 EUR from May on.", "Noted.", "Le bureau ferme à 16 h.", "Noted.")
    talk.fill(11, up_to=6)
    memory = talk.file("MEMORY.md")
    assert memory.startswith(notes)
    assert "- The rent is 990 EUR from May on.\n  > earlier, bee: The rent is 950 EUR.\n  (main#1)\n" in memory
    assert "- Le bureau ferme à 16 h.\n  > earlier, human: The office closes at 18:00.\n  (main#3)\n" in memory
    retiring = [each for each in talk.proposal()["operations"] if each["op"] == "retire"]
    assert [each["state"] for each in retiring] == ["waiting", "refused"]  # a person's own note is protected
    assert review(home, "accept", "main", talk.mark["proposal"])["applied"] == 5
    assert "950" not in talk.file("MEMORY.md").replace("> earlier, bee: The rent is 950 EUR.", "")
    assert "The rent is 950 EUR." in talk.file("archive/MEMORY.md")


def test_a_window_of_zero_shows_ten_turns(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(scripted(home, ANSWER) | {"consolidation.memory_window": 0}).start()
    talk.fill(70)
    shown = system(home).partition("## Recent Conversation")[2]
    assert [number for number in range(1, 71) if f"number {number}." in shown] == list(range(61, 71))
    assert len(SyncClient(home, "main", "bee", timeout_seconds=PATIENCE).get_history().messages) == 10
    assert not {"HISTORY.md", "summary.md", "MEMORY.md", "proposals"} & set(os.listdir(home / "groups/main"))


def test_ten_messages_at_a_window_of_ten_ask_nothing(make_host: HostFactory, home: Path, talk: Talk) -> None:
    host = make_host(scripted(home, ANSWER)).start()
    talk.fill(10)
    other = Talk(home, "other")
    other.fill(11, up_to=6)  # by now the first would have been
    assert talk.mark == {"turn": 0}
    wait_for(lambda: host.events("consolidation.finished"))
    assert [line["session"] for line in host.events("consolidation.finished")] == ["other"]


def test_a_model_that_never_answers_right_is_done_without(make_host: HostFactory, home: Path, talk: Talk) -> None:
    with served(lambda _: openai(ModelSaid("[12.3], as you asked."))) as endpoint:
        host = make_host(SOON | endpoint.settings).start()
        talk.fill(11, up_to=6)
        assert len(endpoint.asked) == ATTEMPTS
        assert len(host.events("curation.given_up")) == 1
        assert MOVE in talk.file("HISTORY.md")
        talk.fill(17)  # the next turns are asked about again
        wait_for(lambda: len(endpoint.asked) > ATTEMPTS)


def test_a_persons_edit_of_the_summary_stays(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(scripted(home, ANSWER)).start()
    talk.fill(11, up_to=6)
    edited = "# About us\n\nA person's own.\n\n## main\n\nAnn moves, says her mother.\n"
    (home / "groups/main/summary.md").write_text(edited)
    talk.fill(17, up_to=12)
    assert talk.file("summary.md") == edited
    assert [each["state"] for each in talk.proposal()["operations"]] == ["applied", "waiting"]


def test_each_session_has_its_part_of_the_summary(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(SOON).start()
    (home / "groups/main/summary.md").write_text("We are a family.\n")
    kitchen = Talk(home, "kitchen")
    for each, fact in ((talk, "The car is a Fiat 500."), (kitchen, "The oven is a Neff 70.")):
        each.say(fact)
        each.fill(11, up_to=6)
    main, other = system(home), system(home, "kitchen")
    assert "We are a family." in main
    assert "We are a family." in other
    assert "Fiat 500" in main
    assert "Neff 70" not in main.partition("## Conversation Summary")[2].partition("Recalled")[0]
    assert "Neff 70" in other


def test_a_note_that_comes_while_the_model_thinks_stays(make_host: HostFactory, home: Path, talk: Talk) -> None:
    has_thought = threading.Event()

    def think(_: Asked) -> Answer:
        has_thought.wait(PATIENCE)
        return openai(ModelSaid(WHOLE))

    with served(think) as endpoint:
        host = make_host({**SOON, **endpoint.settings}).start()
        talk.fill(11)
        wait_for(lambda: endpoint.asked)
        talk.ann.note("meanwhile", "The cat is called Mog.")
        memory = home / "groups/main/MEMORY.md"
        wait_for(lambda: "Mog" in talk.file("MEMORY.md"))
        memory.write_text(memory.read_text() + "\nA person's own line.\n")
        talk.fill(14)  # the conversation goes on
        assert talk.mark == {"turn": 0}
        has_thought.set()
        talk.is_consolidated(6)
    wait_for(lambda: f"- {MOVE}\n" in talk.file("MEMORY.md"))
    for text in ("Mog", "A person's own line.", f"- {MOVE}\n"):
        wait_for(lambda: talk.file("MEMORY.md").count(text) == 1)  # noqa: B023
    assert host.events("curation.failed") == []


def test_a_session_begun_again_ignores_what_was_before(make_host: HostFactory, home: Path, client: MakeClient) -> None:
    make_host(SOON).start()
    talk = Talk(home, "trip:2026.05")  # whatever a session may be called
    talk.fill(11, up_to=6)
    assert "Lisbon" in system(home, talk.session)
    client("ann", session=talk.session).delete_session(begin_again=True)
    talk.say("We talk about gardens now, and the 40 roses.")
    assert "Lisbon" not in system(home, talk.session)
    talk.fill(22, up_to=17)
    shown = system(home, talk.session)
    assert "40 roses" in shown
    assert "Lisbon" not in shown
    assert "Lisbon" in talk.file("HISTORY.md")  # as in the log: nothing is forgotten


def review(home: Path, *words: str) -> dict[str, Any]:
    value: dict[str, Any] = cli_json("review", *words, home=home)
    return value


def test_reverting_a_consolidation_moves_its_watermark_back(make_host: HostFactory, home: Path, talk: Talk) -> None:
    """Also without a host."""
    host = make_host(scripted(home, REMEMBERS)).start()
    talk.fill(11, up_to=6)
    name = talk.mark["proposal"]
    (row,) = review(home, "list", "main", "--all")["proposals"]
    assert (row["id"], row["applied"], row["waiting"]) == (name, 3, 0)
    host.stop()
    assert review(home, "revert", "main", name)["applied"] == 0
    assert talk.mark["turn"] == 0
    assert talk.file("summary.md") == ""
    assert "Lisbon" not in talk.file("MEMORY.md")
    assert talk.file("archive/MEMORY.md") == ""
    assert "taken back" in talk.file("HISTORY.md")
    assert cli_text("review", "list", "main", "--all", home=home).endswith("struck or taken back\n")
    assert "nothing of proposal" in cli_error("review", "revert", "main", name, home=home)
    removal = next(row for row in cli_json("log", "main", home=home) if row["kind"] == "note_removed")
    cli_text("undo", removal["seq"], home=home)
    assert "Lisbon" in talk.file("MEMORY.md")


def test_a_group_imported_under_another_name_keeps_proposals(make_host: HostFactory, home: Path, talk: Talk) -> None:
    host = make_host(scripted(home, REMEMBERS)).start()
    talk.fill(11, up_to=6)
    host.stop()
    archive = home.parent / "main.tar.gz"
    cli_text("export", "main", "--to", archive, home=home)
    cli_text("import", "twin", archive, home=home)
    name = talk.mark["proposal"]
    (row,) = review(home, "list", "twin", "--all")["proposals"]
    assert (row["id"], row["applied"]) == (name, 3)
    assert review(home, "revert", "twin", name)["applied"] == 0
    assert "Lisbon" not in (home / "groups/twin/MEMORY.md").read_text()
    assert "Lisbon" in talk.file("MEMORY.md")


def test_a_partly_applied_proposal_is_reverted_whole(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(scripted(home, {**REMEMBERS, "memory_update": f"- {MOVE}\n- Ann hates Lisbon.\n"})).start()
    talk.fill(11, up_to=6)
    name = talk.mark["proposal"]
    assert [each["state"] for each in talk.proposal()["operations"]] == [*["applied"] * 3, "waiting"]
    assert review(home, "accept", "main", name, "4")["applied"] == 4
    assert "hates" in talk.file("MEMORY.md")

    summary = home / "groups/main/summary.md"
    summary.write_text(f"{talk.file('summary.md')}Ann is away in May.\n")
    settle(home)
    assert "later changes stay in groups/main/summary.md" in cli_text("review", "revert", "main", name, home=home)
    assert talk.file("summary.md") == "Ann is away in May.\n"
    assert "Lisbon" not in talk.file("MEMORY.md")
    assert talk.mark["turn"] == 0


def text_of(asked: Asked) -> str:
    text: str = asked.body["messages"][-1]["content"]
    return text


def all_of_them(asked: Asked) -> Answer:
    """Answer that every turn of a person is a fact."""
    facts = re.findall(r"^  (\d+)\.1 ", text_of(asked), re.MULTILINE)
    return openai(ModelSaid(json.dumps({"facts": [{"take": number} for number in facts], "history": facts})))


def test_every_written_line_is_a_persons_sentence(make_host: HostFactory, home: Path) -> None:
    """`bench.survival` asks the code; this looks at the files of a real host."""
    kinds = dict(zip((kind for kind in KINDS if kind != "hanging"), SAYS, strict=True))
    turns = {kind: [*conversation(language)] for kind, language in kinds.items()}

    def lie(asked: Asked) -> Answer:
        kind = next(kind for kind in kinds if f"We are {kind}." in text_of(asked))
        notes = dict(re.findall(r"^(N\d+) \[[^\]]+\] [^:]+: (.*)$", text_of(asked), re.MULTILINE))
        said = answer(kind, turns[kind], notes, {1: "N1"}, random.Random(kind))
        return openai(ModelSaid(said or ""))

    with served(lie) as endpoint:
        make_host({**endpoint.settings, "consolidation.memory_window": 50}).start()
        for kind in kinds:
            talk = Talk(home, group=kind)
            talk.ann.note("n1", "The budget was 4,100 EUR.")
            people = [f"We are {kind}."]
            people += [turn.content for turn in turns[kind] if turn.role == "user"]
            said = [{"role": turn.role, "content": turn.content} for turn in turns[kind]]
            talk.ann.do("t", "append_turns", turns=[{**each, "key": f"t{n}"} for n, each in enumerate(said)])
            talk.say(people[0], *["Good night."] * 12)
            reply = RawSender(home, kind, "operator").make().ask("c1", request("c1", "consolidate"))
            assert reply["ok"] or kind == "truncating", reply
            lines = "\n".join(map(talk.file, ("MEMORY.md", "HISTORY.md", "summary.md"))).splitlines()
            assert len(lines) > 10 or not reply["ok"]
            for line in lines:
                words = re.sub(r"^\[[^\]]{16}\] ann: |^- |^  ", "", line)
                is_ours = re.match(
                    r"## |\[.{16}\] session main, turns|\(in people's|\(main#\d+\)$|> earlier, ann: The budget was",
                    words,
                )
                assert (
                    is_ours
                    or not words
                    or any(words in said for said in (*people, "Good night.", "The budget was 4,100 EUR."))
                ), line
            assert "The budget was 4,100 EUR." in talk.file("MEMORY.md")


def test_reverting_the_fifth_of_ten_passes_keeps_the_rest(make_host: HostFactory, home: Path, talk: Talk) -> None:
    operator = RawSender(home, sender="operator").make()
    with served(all_of_them) as endpoint:
        make_host({**AT_ONCE, **endpoint.settings, "consolidation.memory_window": 4}).start()
        talk.say("Hello.", "Hello.")
        for number in range(1, 11):
            talk.say(f"Fact number {number} of Ann.", "Noted.")
            operator.do(f"c{number}", "consolidate")
        names = {
            json.loads(path.read_text())["last_turn"]: path.stem
            for path in (home / "groups/main/proposals").glob("*.json")
        }
        assert len(names) == 10
        before = talk.file("MEMORY.md"), talk.file("summary.md")
        settle(home)
        review(home, "revert", "main", names[sorted(names)[4]])
        fifth = re.search(r"\n## [^\n]*\n- Fact number 4 of Ann\.\n  \(main#9\)\n", before[0])
        assert fifth is not None
        assert talk.file("MEMORY.md") == before[0].replace(fifth[0], "")
        assert (talk.file("summary.md"), talk.file("archive/MEMORY.md")) == (before[1], "")
        assert (talk.mark["turn"], talk.mark["again"]) == (20, [[9, 10]])
        assert "taken back: what was told of turns 9-10 of main" in talk.file("HISTORY.md")
        operator.do("again", "consolidate")
        assert talk.file("MEMORY.md").count("- Fact number 4 of Ann.\n") == 1
        assert (talk.mark["turn"], talk.mark.get("again", [])) == (20, [])
        assert talk.file("summary.md") == before[1]


def test_what_a_model_writes_does_not_pile_up(make_host: HostFactory, home: Path, talk: Talk) -> None:
    written: list[str] = []

    def tell(asked: Asked) -> Answer:
        """Answer prose: a new history and summary each time, MEMORY.md with more, and without a note."""
        written.append(f"Ann may like tea of kind {len(written) // 3}.")
        update = "\n".join(f"- {line}" for line in [*written, "Ann hates Lisbon."])
        told = f"Ann talked to the assistant, part {len(written)}."
        answer = {"history_entry": told, "conversation_summary": f"So far: {told}", "memory_update": update}
        return openai(ModelSaid(json.dumps(answer)))

    operator = RawSender(home, sender="operator").make()
    with served(tell) as endpoint:
        make_host({**endpoint.settings, "consolidation.memory_window": 4}).start()
        operator.note("n1", "The office is in Basel.")
        talk.say("Hello.", "Hello.")
        for number in range(12):
            talk.say(f"Fact number {number} of Ann.", "Noted.")
            operator.do(f"c{number}", "consolidate")
    assert len(written) == 12
    made = [json.loads(path.read_text()) for path in (home / "groups/main/proposals").glob("*.json")]
    waiting = [each for proposal in made for each in proposal["operations"] if each["state"] == "waiting"]
    assert Counter(each["op"] for each in waiting) == {
        "write_history": 1,
        "write_summary": 1,
        "add": 1 + len({*written}),
    }
    assert sum(each["op"] == "retire" for one in made for each in one["operations"]) == 1
    assert sum(each["op"] == "write_history" for one in made for each in one["operations"]) == 13


def test_a_silent_model_is_given_up(make_host: HostFactory, home: Path) -> None:
    has_thought = threading.Event()

    def think(asked: Asked) -> Answer:
        if "about hanging" in text_of(asked):
            has_thought.wait(PATIENCE)
        return all_of_them(asked)

    with served(think) as endpoint:
        host = make_host({**SOON, **endpoint.settings, "model.timeout_seconds": 2}).start()
        for group in ("one", "two", "three", "four"):
            talk = Talk(home, group=group)
            talk.say(f"We talk about hanging {group}.")
            talk.fill(11)
        wait_for(lambda: len(endpoint.asked) == 2)
        talk = Talk(home)
        talk.fill(8)
        assert RawSender(home, sender="operator").make().do("c1", "consolidate")["up_to"] == 3
        (failed, *_) = wait_for(lambda: host.events("curation.failed"))
        assert "for 2 s" in failed["why"]
        has_thought.set()


def test_everything_waits_for_a_person_who_wants_to_review(make_host: HostFactory, home: Path, talk: Talk) -> None:
    host = make_host(scripted(home, ANSWER) | {"curation.apply": "review"}).start()
    talk.fill(11)
    wait_for(lambda: host.events("consolidation.finished"))
    assert talk.mark == {"turn": 0}
    assert "I am Ann" in system(home)
    talk.fill(14)  # one that waits is not made a second time
    asked = cli_text("consolidate", "main", "main", home=home)
    assert asked == "there is nothing to do; 2 operations of it wait for you: honeybadger-host review main\n"
    (row,) = review(home, "list", "main")["proposals"]
    assert row["waiting"] == 2
    shown = cli_text("review", "show", "main", row["id"], home=home)
    assert f"ann: {FIRM}" in shown
    assert review(home, "strike", "main", row["id"], "2")["waiting"] == 1
    assert review(home, "accept", "main", row["id"])["applied"] == 1
    talk.is_consolidated(6)
    assert len(talk.history) == 1
    assert talk.file("summary.md") == ""


@pytest.mark.parametrize("mode", ["gated", "lossless"])
def test_an_earlier_mode_means_copied(make_host: HostFactory, home: Path, talk: Talk, mode: str) -> None:
    make_host(scripted(home, ANSWER) | {"curation.apply": mode}).start()
    talk.fill(11)
    talk.is_consolidated(6)


def test_a_person_decides_about_single_operations(make_host: HostFactory, home: Path, talk: Talk) -> None:
    answer = {**REMEMBERS, "memory_update": f"- {MOVE}\n- Ann hates Lisbon.\n"}
    make_host(scripted(home, answer) | {"curation.apply": "review"}).start()
    talk.fill(11)
    wait_for(lambda: list((home / "groups/main/proposals").glob("*.json")))
    (row,) = review(home, "list", "main")["proposals"]
    assert (row["waiting"], row["refused"]) == (4, 0)
    shown = cli_text("review", "show", "main", row["id"], home=home)
    assert "written by scripted:curation.json, nobody said this" in shown
    assert f"ann: {MOVE}" in shown
    assert "said in main#1, main#3" in shown
    review(home, "accept", "main", row["id"], "1", "2", "3")
    review(home, "strike", "main", row["id"], "4")
    talk.is_consolidated(6)
    assert [each["state"] for each in talk.proposal()["operations"]] == [*["applied"] * 3, "struck"]
    assert "nothing waits" in cli_text("review", "main", home=home)


def test_an_operator_consolidates_when_they_like(make_host: HostFactory, home: Path, talk: Talk) -> None:
    host = make_host(SOON).start()
    talk.fill(8)
    done = run_cli("consolidate", "main", "--home", str(home))
    assert done.stdout == "session main is consolidated up to turn 3\n", done.stderr
    talk.is_consolidated(3)
    misspelt = cli_error("consolidate", "main", "mian", home=home, code=9)
    assert "nothing was said in session 'mian' of group main" in misspelt
    talk.fill(12)
    host.stop()
    alone = run_cli("consolidate", "main", "--home", str(home))  # without a host the command is one
    assert (alone.returncode, alone.stdout.startswith("session main is consolidated up to turn ")) == (0, True), alone


def test_a_repeated_consolidate_gets_the_first_answer(make_host: HostFactory, home: Path, talk: Talk) -> None:
    make_host(SOON).start()
    talk.fill(8)
    operator = RawSender(home, sender="operator").make()
    first = operator.ask("c1", request("c1", "consolidate"))
    assert first["result"]["up_to"] == 3
    talk.fill(10)
    assert operator.again("c1", request("c1", "consolidate")) == first
    assert talk.mark["turn"] == 3
    assert operator.do("c2", "consolidate")["up_to"] == 5


WHOLE = json.dumps(REMEMBERS)
BROKEN: dict[str, Callable[[], Answer]] = {
    "overloaded": lambda: refusal(503, "try later"),
    "a wrong key": lambda: refusal(401, "who are you?"),
    "cut off": lambda: openai(ModelSaid(WHOLE[:14]), finish="length"),
    "empty": lambda: openai(ModelSaid("")),
    "refusal": lambda: openai(ModelSaid("I cannot do that.")),
    "blank": lambda: openai(ModelSaid('{"history_entry": "  "}')),
    "other members": lambda: openai(ModelSaid('{"entries": []}')),
    "too deep": lambda: openai(ModelSaid("[" * 50_000)),
    "a broken connection": lambda: openai(ModelSaid(WHOLE), then="cut"),
    "10 MB": lambda: openai(ModelSaid("x" * 10_000_000), pieces_of_text=["x" * 100_000] * 100),
}


@pytest.mark.timeout(300)
def test_a_failing_model_over_http_costs_only_its_tokens(make_host: HostFactory, home: Path) -> None:
    broken = ""

    def answering(_: Asked) -> Answer:
        return BROKEN[broken]() if broken else openai(ModelSaid(f"```json\n{WHOLE}\n```"))

    with served(answering) as endpoint:
        host = make_host({**SOON, **endpoint.settings, "curation.tokens_per_day": 1_000_000_000}).start()

        def fails(group: str) -> Talk:
            talk = Talk(home, group=group.replace(" ", "-"))
            talk.fill(11)
            wait_for(lambda: [line for line in host.events("curation.failed") if line["group"] == talk.group])
            assert talk.mark == {"turn": 0}
            assert talk.file("HISTORY.md") == talk.file("summary.md") == talk.file("MEMORY.md") == ""
            return talk

        def is_made_up_for(talk: Talk) -> None:
            talk.is_consolidated(6)
            assert FIRM in talk.history[0]
            assert talk.file("MEMORY.md").count(f"- {MOVE}\n") == 1
            asked = endpoint.asked[-1]
            assert "You choose what a group remembers" in asked.system
            assert json.dumps(f"USER: ann\n  1.1 {MOVE}")[1:-1] in json.dumps(asked.body)

        free, refused = ("overloaded", "a wrong key"), []
        for broken in free:  # nothing was answered: what was booked is free again
            refused.append(fails(broken))
            wait_for(lambda: (now := status_of(home)["curation"])["failed"] and now["tokens_today"] == 0)
        broken = ""
        for talk in refused:
            is_made_up_for(talk)
        for broken in [each for each in BROKEN if each not in free]:
            talk = fails(broken)
            broken = ""
            is_made_up_for(talk)


def test_daily_cost_is_bounded_and_waiting_work_is_told(make_host: HostFactory, home: Path, talk: Talk) -> None:
    with served(lambda _: openai(ModelSaid(WHOLE, input_tokens=900, output_tokens=100))) as endpoint:
        settings = {**SOON, **endpoint.settings}
        host = make_host({**settings, "curation.tokens_per_day": 2600, "model.max_output_tokens": 1000}).start()
        talk.fill(11, up_to=6)
        talk.fill(17)  # what a call may cost is more than what is left
        (failed, *_) = wait_for(lambda: host.events("curation.failed"))
        assert "curation.tokens_per_day is 2600" in failed["why"]
        assert len(endpoint.asked) == 1
        status = wait_for(lambda: (found := status_of(home)["curation"])["failed"] and found)
        assert status["spent_today"] == [{"group": "main", "kind": "consolidation", "tokens": 1000}]
        assert status["budgets"] == [{"setting": "curation.tokens_per_day", "used": 1000, "limit": 2600}]
        assert "failed: consolidation of main/main: 1000 tokens were used today" in cli_text("status", home=home)
        host.restart()
        talk.fill(18)
        wait_for(lambda: host.events("curation.failed"))
        assert len(endpoint.asked) == 1
        assert "message number 7." in system(home)
