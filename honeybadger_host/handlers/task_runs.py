"""A run of a task: a turn of an agent that the clock asks for (HB7).

It ends with one commit: its turns, the new state of the task, and the receipt that keeps the same run from being made
twice.
"""

from datetime import datetime

import anyio.to_thread

from honeybadger_host.handler_kinds import Asked, ChangeHandler, Outcome, TurnHandler, TurnUnderWay
from honeybadger_host.handlers.turns.chat_turn import AgentRuntime, begun
from honeybadger_host.journal.changes import Added, Change, FileRemoved, read_whole
from honeybadger_host.work.messages import Message, dump_message
from honeybadger_host.work.runs import Run, TaskChanged
from honeybadger_host.work.task_files import TaskFile, TaskStates, task_file

MOST_TURNS = 10  # newest turns of its session that a run gets at most, within the usual budget (HB7)
_NOTHING = ("", "NOTHING")


def run_of(run: Run, runtime: AgentRuntime, states: TaskStates) -> TurnHandler:
    """Return the handler of a run."""
    memory, file = runtime.memory, task_file(run.group, run.id)

    async def begin(asked: Asked, under_way: TurnUnderWay) -> ChangeHandler:
        if await anyio.to_thread.run_sync(read_whole, memory.home / file) != run.data:
            raise TaskChanged("conflict", "the task was changed before it began")
        turn = begun(runtime, asked, under_way, MOST_TURNS)
        await turn.run()

        def decide(asked: Asked, now: datetime) -> Outcome:
            outcome = turn.decide(asked, now)
            is_quiet = not _is_told(run.task, outcome.result["content"])
            tokens = [outcome.result.get(f"{way}_tokens") or 0 for way in ("input", "output", "delegated")]
            ended = run.ended(
                states,
                "done",
                now,
                why=outcome.result.get("stopped_by") or "",
                quiet=is_quiet,
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                used=sum(tokens),
            )
            changes: list[Change] = []
            if not is_quiet:  # a message is the first change: its number is the journal's next
                message = Message(
                    seq=memory.journal.next_seq,
                    at=now,
                    sender=outcome.result["agent"],
                    content=outcome.result["content"],
                    session=run.task.session,
                    request=run.asked.request_id,
                )
                changes += [Added.of("message", run.group, dump_message(message)), *outcome.changes]
            if run.task.schedule_type == "once" and not run.is_asked and memory.whole_files.view(file) == run.data:
                changes.append(FileRemoved(run.group, "task", file, run.data))
            return Outcome(outcome.result, (*changes, ended))

        return ChangeHandler(decide)

    return TurnHandler(begin)


def _is_told(task: TaskFile, said: str) -> bool:
    """Return whether an answer is sent to people."""
    if task.deliver == "when_said":
        return said.strip().strip(".`*\"'").upper() not in _NOTHING
    return task.deliver == "always"
