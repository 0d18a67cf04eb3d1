"""The output of `status` and `doctor`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from honeybadger_agent.wording import count_of, in_words
from honeybadger_host.cli.options import moment, paint

if TYPE_CHECKING:  # it takes long to import
    from honeybadger_host.ops.doctor.findings import Finding

_OLD_SECONDS: Final = 5.0
_MAX_NAMED: Final = 5
_COLOURS: Final = {"ok": "green", "warning": "yellow", "problem": "red"}


def print_finding(finding: Finding) -> None:
    """Print a finding of the doctor, with its advice on the next line."""
    level = paint(f"{finding.level:8}", _COLOURS[finding.level])
    advice = f"\n{'':10}-> {finding.now_what}" if finding.now_what else ""
    print(f"{level}  {finding.check}: {finding.message}{advice}", flush=True)


def print_status(folder: Path, status_: dict[str, Any]) -> None:
    """Print the status of the host that serves a home: a line or more for each part."""
    if not status_:
        print(f"a host serves {folder}; it has not written its status yet")
        return
    as_of = _as_of(status_["written_at"])
    if status_["mode"] == "follows":
        _print_follower(status_, as_of)
        return
    print(
        f"running   pid {status_['pid']}, version {status_['version']}, {status_['mode']} mode, "
        f"up {in_words(status_['uptime_seconds'])}, {as_of}"
    )
    _print_inboxes(status_)
    _print_requests(status_)
    _print_journal(status_)
    if "turns" in status_:  # else the host is older than this command
        _print_agents(status_["turns"], status_["agents"])
    if "curation" in status_:
        _print_curation(status_["curation"])
    if review := status_.get("review"):
        _print_review(review)
    for file in status_.get("damaged", ()):
        print(paint(f"damaged   {file} cannot be read any more: its last good version is served", "yellow"))
        _print_warning("mend it; what agents change meanwhile waits and is merged then")
    for removed in status_.get("removed_unread", ()):
        when = moment(removed["at"])
        print(paint(f"removed   {removed['what']} went from {removed['file']} in a save of {when}", "yellow"))
        _print_warning(f"honeybadger-host undo {removed['seq']} brings them back")
    if (tasks := status_.get("tasks")) and tasks["known"]:
        _print_tasks(tasks)
    for target in status_.get("push", ()):
        _print_push(target)
    _print_search(status_["index"], status_["watcher"])
    if status_["last_error"]:
        print(paint(f"error     {moment(int(status_['last_error_at'] * 1000))}  {status_['last_error']}", "yellow"))
    if status_["resident_bytes"]:
        print(f"memory    {status_['resident_bytes'] >> 20} MiB")


def _as_of(written_at: float) -> str:
    """Return the time of the status, in red if it is late."""
    as_of = f"as of {moment(int(written_at * 1000))}"
    age = time.time() - written_at
    if age > _OLD_SECONDS:
        return paint(f"{as_of}, {in_words(age)} ago: it hangs, or cannot write", "red")
    return as_of


def _print_follower(status_: dict[str, Any], as_of: str) -> None:
    cluster = status_["cluster"]
    print(
        f"follows   {cluster['owner'] or 'nobody yet'}; pid {status_['pid']}, "
        f"version {status_['version']}, up {in_words(status_['uptime_seconds'])}, {as_of}"
    )
    print(f"cluster   {cluster['node']} has {cluster['seq']}, {cluster['behind']} behind")


def _print_inboxes(status_: dict[str, Any]) -> None:
    """Print the numbers of inboxes and waiting requests, and warnings about limits, memory and inboxes."""
    pending, stuck = count_of(status_["pending"], "request waits", "requests wait"), status_["stuck"]
    cannot = paint(f", {stuck} cannot be removed", "yellow") if stuck else ""
    print(f"inboxes   {status_['boxes']}, {pending}{cannot}")
    for reached in status_["limits"]["reached_lately"]:
        _print_warning(f"over a limit within 10 minutes: {reached}")
    for large in status_.get("large_memories", ()):
        _print_warning(f"large: groups/{large}")
    for refused in status_["boxes_refused"]:
        _print_warning(f"not served: {refused}")


def _print_requests(status_: dict[str, Any]) -> None:
    requests, latency = status_["requests"], status_["latency"]
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(requests["by_outcome"].items()))
    took = f", p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms" if latency else ""
    print(f"requests  {requests['total']} ({outcomes or 'none yet'}), {status_['requests_per_second']}/s{took}")


def _print_journal(status_: dict[str, Any]) -> None:
    """Print the positions of the journal and of the cluster's log, and files that cannot be written."""
    journal, cluster = status_["journal"], status_.get("cluster")
    young = journal["seq"] - journal["projected_seq"]  # written, too; a start would look whether they are still there
    written = f"the last {young} on their way into the files" if young else "all in the files"
    print(f"journal   at {journal['seq']}, {written}")
    if cluster:
        print(f"cluster   {cluster['node']} owns the home, epoch {cluster['epoch']}, log at {cluster['seq']}")
    for row in journal.get("damaged", ()):
        _print_warning(f"changed by itself, see `honeybadger-host doctor`: {row}")
    for file in status_["files_behind"]:
        _print_warning(f"cannot be written now: {file}")


def _print_agents(turns: dict[str, Any], agents: dict[str, Any]) -> None:
    running = count_of(turns["running"], "answer")
    print(f"agents    {len(agents['known'])}; {running} being written, {turns['waiting']} waiting")
    for file, why in agents["refused"].items():
        _print_warning(f"as it was before: {file}: {why}")


def _print_review(review: dict[str, int]) -> None:
    """Print the number of waiting proposals, and the groups with the most of them."""
    groups = sorted(review.items(), key=lambda group: -group[1])
    named = ", ".join(f"{group} {count}" for group, count in groups[:_MAX_NAMED])
    more = f" and {len(groups) - _MAX_NAMED} groups more" if len(groups) > _MAX_NAMED else ""
    wait = count_of(sum(review.values()), "proposal waits", "proposals wait")
    print(f"review    {wait} for you: {named}{more}; see honeybadger-host review <group>")


def _print_tasks(tasks: dict[str, Any]) -> None:
    paused = f", {tasks['paused']} paused" if tasks["paused"] else ""
    coming = f", next {moment(int(tasks['next_at'] * 1000))}" if tasks["next_at"] else ""
    print(f"tasks     {tasks['known']}, {tasks['due']} due{paused}{coming}")
    for refused in tasks["refused"]:
        _print_warning(f"does not run: {refused}")


def _print_search(index: dict[str, Any], watcher: dict[str, Any]) -> None:
    """Print the sizes of the index and of its backlog, and warnings about the watcher."""
    waits = f", {count_of(index['waiting'], 'file is', 'files are')} still to be read" if index["waiting"] else ""
    if index["without_vector"]:
        waits += f", {count_of(index['without_vector'], 'document has', 'documents have')} no vector yet"
    print(f"search    {count_of(index['documents'], 'document')}{waits}")
    if not watcher["is_alive"] or watcher["folders_without_events"]:
        folders = count_of(watcher["folders_without_events"], "folder")
        print(f"watcher   {'alive' if watcher['is_alive'] else 'off'}, {folders} found by the sweep only")


def _print_warning(text: str) -> None:
    """Print a warning in yellow below its part of the status."""
    print(paint(f"{'':10}{text}", "yellow"))


def _print_push(target: dict[str, Any]) -> None:
    print(f"push      {target['target']}, {', '.join(target['groups']) or 'all groups'}")
    if (failed := target["failed"]) is not None:
        what = f"message {failed['seq']} of {failed['group']} waits for {in_words(failed['for_seconds'])}"
        _print_warning(f"{what}: {failed['why']}; again in {in_words(failed['again_in_seconds'])}")


def _print_curation(curation: dict[str, Any]) -> None:
    """Print the jobs of curation: done since the start, running and waiting."""
    spent = f", {curation['tokens_today']} tokens today" if curation["tokens_today"] else ""
    if curation["consolidations"] or curation["running"] or spent:
        runs = f", now {', '.join(curation['running'])}" if curation["running"] else ""
        done = count_of(curation["consolidations"], "consolidation")
        print(f"curation  by {curation.get('by', 'a model')}: {done} since the start{runs}{spent}")
        for budget in curation["budgets"]:
            print(f"          {budget['setting']}: {budget['used']} of {budget['limit']} tokens today")
    for job in curation["waiting"]:
        print(f"          waits for its turn: {job}")
    for failed in curation["failed"]:
        again = f"again in {in_words(failed['again_in_seconds'])}"
        _print_warning(f"failed: {failed['job']}: {failed['why']}; {again}")
