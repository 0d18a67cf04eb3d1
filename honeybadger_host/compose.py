"""The composition root: the only place where the parts of a host are made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from honeybadger_host.agents import Agents
from honeybadger_host.configuration import host_zone
from honeybadger_host.curation.asking import Asker
from honeybadger_host.curation.dreams import DueDreams
from honeybadger_host.curation.passes import PassDependencies
from honeybadger_host.curation.runner import Curator
from honeybadger_host.documents.in_use import DocumentsInUse, Rules
from honeybadger_host.documents.projections import Projections
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.files.group_folders import GroupFolders
from honeybadger_host.files.home import (
    CLOCK_GRACE_SECONDS,
    JOURNAL_FILE,
    MESSAGES_FOLDER,
    STATUS_FILE,
    HomeLock,
    check_home,
)
from honeybadger_host.files.safe_files import remove_leftovers
from honeybadger_host.files.unsynced import Unsynced
from honeybadger_host.handlers import build_table
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.task_runs import run_of
from honeybadger_host.handlers.tasks import TaskDependencies
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime
from honeybadger_host.journal.changes import UnitOfWork, WholeFiles
from honeybadger_host.journal.journal import Journal
from honeybadger_host.log import log
from honeybadger_host.memory.compaction import CompactionLimits
from honeybadger_host.memory.edited_notes import EditedNotes
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.peoples_files import ChangedFiles, check_groups, document_group, name_of
from honeybadger_host.memory.session_document import SESSIONS
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermarks
from honeybadger_host.memory.working_memory_store import WorkingMemoryStore
from honeybadger_host.models import Models
from honeybadger_host.observe import Counters, RequestLog, Throttle
from honeybadger_host.ops import clock
from honeybadger_host.ops.forget import Forgetter
from honeybadger_host.ops.host import Host
from honeybadger_host.search.index import INDEX_FILE, Index
from honeybadger_host.settings import Settings
from honeybadger_host.spool.answers import Answers
from honeybadger_host.spool.dead_letters import DeadLetters
from honeybadger_host.spool.pipeline import Pipeline
from honeybadger_host.spool.replies import ReplyRetention
from honeybadger_host.spool.request import RequestReader
from honeybadger_host.spool.senders import SenderList
from honeybadger_host.spool.spool import Spool
from honeybadger_host.text.neutralise import neutralise
from honeybadger_host.text.redaction import redact
from honeybadger_host.threads import Threads
from honeybadger_host.transfer.places import finish_loading
from honeybadger_host.work.push import Pusher
from honeybadger_host.work.scheduler import Scheduler, wall_clock
from honeybadger_host.work.task_files import TaskStates
from honeybadger_host.work.times import dream_times

if TYPE_CHECKING:  # needs an extra
    from honeybadger_host.cluster.member import Member
    from honeybadger_host.search.embeddings import Embedder


def build(
    home: Path,
    settings: Settings,
    *,
    passed: Callable[[str], None] = lambda point: None,
    member: Member | None = None,
) -> Host:
    """Put a host together on a home folder: lock it, open the journal, bring the files up to date.

    Args:
        passed: see `Answers`.
        member: this machine as one of several, once it owns the home; it has the lock.
    Raises HostError: what is wrong with the home, its lock or its journal.
    """
    check_home(home)
    with ExitStack() as opened:
        lock = HomeLock(home) if member is None else member.lock
        opened.callback(lock.close)
        journal = Journal.open(
            home / JOURNAL_FILE,
            expected_identity=lock.previous.journal,
            shared=None if member is None else member.shared,
        )
        opened.callback(journal.close)
        check_groups(home)
        lock.sign(journal.identity)
        finish_loading(home)
        host = _put_together(home, settings, lock, journal, opened, passed)
        host.opened = opened.pop_all()
    return host


def _put_together(
    home: Path,
    settings: Settings,
    lock: HomeLock,
    journal: Journal,
    opened: ExitStack,
    passed: Callable[[str], None],
) -> Host:
    """Return the host, built layer by layer; `opened` closes the layers at its end, or if a later one fails.

    A layer may get a function that uses a layer above it: that layer exists when the function is called.
    """

    def changed(file: str) -> None:
        memory.files.kept.drop(file)
        memory.index.touch(file)
        if file.startswith(f"{MESSAGES_FOLDER}/"):
            memory.arrivals.came(Path(file).stem)

    def rules_of(file: str) -> Rules | None:
        return memory.sessions.rules if file.startswith(f"{SESSIONS}/") and file.endswith(".json") else None

    in_use = DocumentsInUse(
        home, journal, Unsynced(home), group_of=document_group, author_of=name_of, changed=changed, rules=rules_of
    )
    projections = Projections(in_use)

    agents, models = Agents(home, settings.turns.agent), Models(home, settings.model)
    memory = _memory_of(home, settings, agents, journal, projections, opened)
    group_folders = GroupFolders(home)
    changed_files = ChangedFiles(home, journal.path, in_use, memory.entry_files, group_folders)
    if not journal.has_adopted:
        in_use.adopt(changed_files.every())
    looked_at = projections.recover(journal.unprojected())  # committed changes that are missing in files
    if looked_at:
        log.info("recovery.finished", changes=looked_at, behind=projections.behind)
    remove_leftovers((home / STATUS_FILE).parent, {Path(STATUS_FILE).name})  # of a killed host
    projections.written_seq = journal.committed_seq

    senders = SenderList(home) if settings.ipc.closed else None
    spool = Spool(
        home / "data" / "ipc",
        senders=None if senders is None else senders.current,
        agents=lambda: agents.current,
    )
    replies = ReplyRetention(spool, ttl_seconds=settings.ipc.reply_ttl_seconds)
    replies.remove_torn()
    behind = journal.last_at / 1000 - time.time()  # times in the journal never go back
    if behind > CLOCK_GRACE_SECONDS:
        log.warning("clock.behind", seconds=round(behind), now_what="set the clock; see doctor")

    curator = _curator_of(home, settings, memory, agents, models, lambda: pipeline)
    runtime = AgentRuntime(
        memory,
        models.open,
        # in closed mode a sender's inbox may be another user's
        is_ours=lambda group, agent: senders is None or senders.current.get((group, agent)) in (None, os.geteuid()),
        look_into=lambda folder: pipeline.look_into(folder),
        until_answered=lambda: answers.told.wait(),
        stop=lambda asked, sender, session: pipeline.turn_queue.stop_turn(asked, sender, session),
        threads=Threads(settings.turns.at_once),
    )
    tasks = TaskDependencies(
        memory,
        TaskStates(journal.task_records()),
        host_zone(),
        under_way=lambda: pipeline.turn_queue.under_way,
    )

    counters, throttle = Counters(), Throttle()
    answers = Answers(
        spool,
        DeadLetters(home / "data" / "dead", keeps_secrets=settings.security.secrets == "off"),
        journal,
        counters,
        throttle,
        RequestLog(),
        passed,
    )
    pipeline = Pipeline(
        settings,
        RequestReader(
            build_table(memory, curator, lambda asked: forgetter.forget(asked), runtime, tasks),
            agents.forbids,
            counters,
            throttle,
        ),
        answers,
        projections,
        UnitOfWork(
            [memory.turn_logs, memory.whole_files, memory.working_memory, memory.sessions, curator, tasks.states]
        ),
        note=memory.ledger.note,
        idle=memory.sessions.write_out,
    )

    scheduler = Scheduler(
        home,
        group_folders,
        journal,
        tasks.states,
        memory.turn_logs,
        tasks.schedule,
        tasks.why_idle,
        handler_of=lambda run: run_of(run, runtime, tasks.states),
        turn=pipeline.turn,
        change=pipeline.change,
        clock=lambda: wall_clock(),
    )
    forgetter = Forgetter(memory, projections, pipeline, changed=changed)
    return Host(
        home=home,
        settings=settings,
        journal=journal,
        projections=projections,
        memory=memory,
        group_folders=group_folders,
        changed_files=changed_files,
        spool=spool,
        replies=replies,
        pipeline=pipeline,
        curator=curator,
        forgetter=forgetter,
        scheduler=scheduler,
        pusher=Pusher(home, settings.messages.push, journal, pipeline.writer, memory.arrivals),
        counters=counters,
        throttle=throttle,
        senders=senders,
        models=models,
        ages=clock.Ages.of(clock.RECEIPT_SECONDS, journal.kept_ages()),
        started=time.monotonic(),
    )


def _memory_of(
    home: Path,
    settings: Settings,
    agents: Agents,
    journal: Journal,
    projections: Projections,
    opened: ExitStack,
) -> Dependencies:
    """Return memory and search, without the parts that run outside the pipeline."""
    kept = KeptFiles(home)
    whole_files = WholeFiles(home, projections.saves.current)
    turn_logs = TurnLogs(
        home,
        window_turns=settings.consolidation.kept_turns,
        clock=time.monotonic,
        unwritten=projections.unwritten,
    )
    index = Index(
        home,
        home / INDEX_FILE,
        max_memory_bytes=settings.recall.max_memory_bytes,
        embedder=embedder_of(settings),
        read_version=projections.read,
        extent_of=projections.saves.extent_of,
    )
    opened.callback(index.close)
    ledger = InjectionLedger(home, kept_days=settings.context.kept_days)
    opened.callback(ledger.close)
    return Dependencies(
        settings=settings,
        agents=agents,
        files=GroupFiles(
            home,
            kept,
            edited_notes=EditedNotes(projections.in_use.reader),
            view=projections.saves.view,
            extent_of=projections.saves.extent_of,
        ),
        turn_logs=turn_logs,
        whole_files=whole_files,
        entry_files=EntryFiles(home, projections.read),
        working_memory=WorkingMemoryStore(home, projections.read, kept),
        sessions=Sessions(turn_logs, whole_files, CompactionLimits(), projections.render),
        index=index,
        ledger=ledger,
        watermarks=Watermarks(kept),
        journal=journal,
        written_seq=lambda: projections.written_seq,
    )


def _curator_of(
    home: Path,
    settings: Settings,
    memory: Dependencies,
    agents: Agents,
    models: Models,
    pipeline: Callable[[], Pipeline],
) -> Curator:
    """Return the curator, which tidies memory in the background and on request."""
    model = settings.model.curation or settings.model.name
    keeps_secrets = settings.security.secrets == "off"
    uses = PassDependencies(
        home,
        asker=Asker(
            memory.journal,
            lambda: pipeline().writer,
            None if model == "offline" else lambda: models.open(model),
            lambda text: text if keeps_secrets else redact(neutralise(text).text)[0],
            settings,
        ),
        files=memory.files,
        change=lambda *change: pipeline().change(*change),
        waiting_groups=lambda: pipeline().turn_queue.under_way,
        is_agent=lambda name: name in agents.current,
        turn_logs=memory.turn_logs,
        documents=memory.sessions,
        watermarks=memory.watermarks,
        whole_files=memory.whole_files,
        entry_files=memory.entry_files,
        memory_window=settings.consolidation.memory_window if settings.conversation.enabled else 0,
        settings=settings,
        give_way=memory.index.give_way,
    )
    schedule = dream_times(settings.dream)
    return Curator(uses, None if schedule is None else DueDreams(home, schedule, memory.ledger))


def embedder_of(settings: Settings) -> Embedder | None:
    """Return the model that computes vectors of texts, or None if it is off. Raises SettingsError."""
    if settings.recall.vectors == "off":
        return None
    from honeybadger_host.search.embeddings import open_embedder  # with numpy

    return open_embedder()
