"""The output of `status` and `doctor`."""

import sys
import time
from pathlib import Path
from typing import Any, Final

from honeybadger_agent.cli.terminal import here, painted
from honeybadger_agent.wording import count_of, in_words, listed
from honeybadger_host.cli.shared import (
    moment,
)
from honeybadger_host.ops.findings import LATE_SECONDS, Finding, dead_letters, disk, faults_in

_STYLES: Final = {"ok": "good", "warning": "warning", "problem": "error"}


def print_finding(finding: Finding) -> None:
    """Print a finding of the doctor, with its advice on the next line."""
    level = painted(f"{finding.level:8}", _STYLES[finding.level], sys.stdout)
    advice = f"\n{'':10}-> {finding.now_what}" if finding.now_what else ""
    print(f"{level}  {finding.check}: {here(finding.message)}{advice}", flush=True)


def print_status(folder: Path, status_: dict[str, Any]) -> None:
    """Print the status of the host that serves a home: a line or more for each part."""
    if not status_:
        print(f"a host serves {folder}; it has not written its status yet")
    elif status_["mode"] == "follows":
        _print_follower(status_)
    else:
        _print_owner(status_)
    for fault in (*faults_in(status_), *dead_letters(folder), *disk(folder)):  # a full disk can take no status
        if fault.level != "ok":
            print_finding(fault)


def _as_of(status_: dict[str, Any]) -> str:
    return f"up {in_words(status_['uptime_seconds'])}, as of {moment(int(status_['written_at'] * 1000))}"


def _print_owner(status_: dict[str, Any]) -> None:
    state = "running" if time.time() - status_["written_at"] <= LATE_SECONDS else "silent"
    print(f"{state:9} pid {status_['pid']}, version {status_['version']}, {status_['mode']} mode, {_as_of(status_)}")
    print(f"inboxes   {status_['boxes']}, {count_of(status_['pending'], 'request waits', 'requests wait')}")
    _print_requests(status_)
    _print_journal(status_)
    running = count_of(status_["turns"]["running"], "answer")
    print(
        f"agents    {len(status_['agents']['known'])}; {running} being written, {status_['turns']['waiting']} waiting"
    )
    _print_curation(status_["curation"])
    if review := status_.get("review"):
        _print_review(review)
    for removed in status_.get("removed_unread", ()):
        when = moment(removed["at"])
        went = f"removed   {removed['what']} went from {removed['file']} in a save of {when}"
        print(painted(f"{went}\n{'':10}honeybadger-host undo {removed['seq']} brings them back", "warning", sys.stdout))
    if (tasks := status_.get("tasks")) and tasks["known"]:
        _print_tasks(tasks)
    for target in status_.get("push", ()):
        print(f"push      {target['target']}, {', '.join(target['groups']) or 'all groups'}")
    _print_search(status_["index"])
    if status_["resident_bytes"]:
        print(f"memory    {status_['resident_bytes'] >> 20} MiB")
    if status_["last_error"]:
        error = f"error     {moment(int(status_['last_error_at'] * 1000))}  {status_['last_error']}"
        print(painted(error, "warning", sys.stdout))


def _print_follower(status_: dict[str, Any]) -> None:
    cluster, program = status_["cluster"], f"pid {status_['pid']}, version {status_['version']}"
    print(f"follows   {cluster['owner'] or 'nobody yet'}; {program}, {_as_of(status_)}")
    print(f"cluster   {cluster['node']} has {cluster['seq']}, {cluster['behind']} behind")


def _print_requests(status_: dict[str, Any]) -> None:
    requests, latency = status_["requests"], status_["latency"]
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(requests["by_outcome"].items()))
    took = f", p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms" if latency else ""
    print(f"requests  {requests['total']} ({outcomes or 'none yet'}){took}")


def _print_journal(status_: dict[str, Any]) -> None:
    """Print the positions of the journal and of the cluster's log."""
    journal, cluster = status_["journal"], status_.get("cluster")
    young = journal["seq"] - journal["projected_seq"]  # written, but not known to be durable
    written = f"the last {young} on their way into the files" if young else "all in the files"
    print(f"journal   at {journal['seq']}, {written}")
    if cluster:
        print(f"cluster   {cluster['node']} owns the home, epoch {cluster['epoch']}, log at {cluster['seq']}")


def _print_review(review: dict[str, int]) -> None:
    """Print the number of waiting proposals, and the groups with the most of them."""
    groups = sorted(review.items(), key=lambda group: -group[1])
    named = listed([f"{group} {count}" for group, count in groups])
    wait = count_of(sum(review.values()), "proposal waits", "proposals wait")
    print(f"review    {wait} for you: {named}; see honeybadger-host review <group>")


def _print_tasks(tasks: dict[str, Any]) -> None:
    paused = f", {tasks['paused']} paused" if tasks["paused"] else ""
    coming = f", next {moment(int(tasks['next_at'] * 1000))}" if tasks["next_at"] else ""
    print(f"tasks     {tasks['known']}, {tasks['due']} due{paused}{coming}")


def _print_search(index: dict[str, Any]) -> None:
    """Print the sizes of the index and of its backlog."""
    waits = f", {count_of(index['waiting'], 'file is', 'files are')} still to be read" if index["waiting"] else ""
    if index["without_vector"]:
        waits += f", {count_of(index['without_vector'], 'document has', 'documents have')} no vector yet"
    print(f"search    {count_of(index['documents'], 'document')}{waits}")


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
