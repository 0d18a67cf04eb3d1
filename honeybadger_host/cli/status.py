"""The output of `status` and `doctor`."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from honeybadger_agent.cli.terminal import here, painted
from honeybadger_agent.wording import count_of, in_words, listed
from honeybadger_host.cli.shared import moment
from honeybadger_host.ops.findings import LATE_SECONDS, Finding, dead_letters, disk, faults_in

_STYLES = {"ok": "good", "warning": "warning", "problem": "error"}


def print_finding(finding: Finding) -> None:
    """Print a finding of the doctor, with its advice on the next line."""
    level = painted(f"{finding.level:8}", _STYLES[finding.level], sys.stdout)
    advice = f"\n{'':10}-> {finding.now_what}" if finding.now_what else ""
    print(f"{level}  {finding.check}: {here(finding.message)}{advice}", flush=True)


def print_status(folder: Path, status_: dict[str, Any]) -> None:
    """Print the status of the host that serves a home: a line or more for each part."""
    lines: Iterator[str] = iter([f"a host serves {folder}; it has not written its status yet"])
    if status_:
        lines = _follower(status_) if status_["mode"] == "follows" else _owner(status_)
    for line in lines:
        print(line)
    for fault in (*faults_in(status_), *dead_letters(folder), *disk(folder)):  # a full disk can take no status
        if fault.level != "ok":
            print_finding(fault)


def _as_of(status_: dict[str, Any]) -> str:
    return f"up {in_words(status_['uptime_seconds'])}, as of {moment(int(status_['written_at'] * 1000))}"


def _follower(status_: dict[str, Any]) -> Iterator[str]:
    cluster, program = status_["cluster"], f"pid {status_['pid']}, version {status_['version']}"
    yield f"follows   {cluster['owner'] or 'nobody yet'}; {program}, {_as_of(status_)}"
    yield f"cluster   {cluster['node']} has {cluster['seq']}, {cluster['behind']} behind"


def _owner(status_: dict[str, Any]) -> Iterator[str]:
    state = "running" if time.time() - status_["written_at"] <= LATE_SECONDS else "silent"
    yield f"{state:9} pid {status_['pid']}, version {status_['version']}, {status_['mode']} mode, {_as_of(status_)}"
    yield f"inboxes   {status_['boxes']}, {count_of(status_['pending'], 'request waits', 'requests wait')}"
    requests, latency = status_["requests"], status_["latency"]
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(requests["by_outcome"].items()))
    took = f", p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms" if latency else ""
    yield f"requests  {requests['total']} ({outcomes or 'none yet'}){took}"
    journal, cluster = status_["journal"], status_.get("cluster")
    young = journal["seq"] - journal["projected_seq"]  # written, but not known to be durable
    yield f"journal   at {journal['seq']}, {f'the last {young} on their way into' if young else 'all in'} the files"
    if cluster:
        yield f"cluster   {cluster['node']} owns the home, epoch {cluster['epoch']}, log at {cluster['seq']}"
    running, agents = count_of(status_["turns"]["running"], "answer"), len(status_["agents"]["known"])
    yield f"agents    {agents}; {running} being written, {status_['turns']['waiting']} waiting"
    yield from _curation(status_["curation"])
    yield from _memory(status_)
    for target in status_.get("push", ()):
        yield f"push      {target['target']}, {', '.join(target['groups']) or 'all groups'}"
    if status_["resident_bytes"]:
        yield f"memory    {status_['resident_bytes'] >> 20} MiB"
    if status_["last_error"]:
        at = moment(int(status_["last_error_at"] * 1000))
        yield painted(f"error     {at}  {status_['last_error']}", "warning", sys.stdout)


def _curation(curation: dict[str, Any]) -> Iterator[str]:
    """Yield the jobs of curation: done since the start, running and waiting."""
    spent = f", {curation['tokens_today']} tokens today" if curation["tokens_today"] else ""
    if curation["consolidations"] or curation["running"] or spent:
        runs = f", now {', '.join(curation['running'])}" if curation["running"] else ""
        done = count_of(curation["consolidations"], "consolidation")
        yield f"curation  by {curation.get('by', 'a model')}: {done} since the start{runs}{spent}"
        for budget in curation["budgets"]:
            yield f"          {budget['setting']}: {budget['used']} of {budget['limit']} tokens today"
    for job in curation["waiting"]:
        yield f"          waits for its turn: {job}"


def _memory(status_: dict[str, Any]) -> Iterator[str]:
    """Yield what waits for a person, the groups with most of it first, the tasks, and the index with its backlog."""
    if review := status_.get("review"):
        groups = sorted(review.items(), key=lambda group: -group[1])
        wait = count_of(sum(review.values()), "proposal waits", "proposals wait")
        named = listed([f"{group} {count}" for group, count in groups])
        yield f"review    {wait} for you: {named}; see honeybadger-host review <group>"
    for removed in status_.get("removed_unread", ()):
        yield painted(
            f"removed   {removed['what']} went from {removed['file']} in a save of {moment(removed['at'])}\n{'':10}"
            f"honeybadger-host undo {removed['seq']} brings them back",
            "warning",
            sys.stdout,
        )
    if (tasks := status_.get("tasks")) and tasks["known"]:
        paused = f", {tasks['paused']} paused" if tasks["paused"] else ""
        coming = f", next {moment(int(tasks['next_at'] * 1000))}" if tasks["next_at"] else ""
        yield f"tasks     {tasks['known']}, {tasks['due']} due{paused}{coming}"
    index = status_["index"]
    waits = f", {count_of(index['waiting'], 'file is', 'files are')} still to be read" if index["waiting"] else ""
    if index["without_vector"]:
        waits += f", {count_of(index['without_vector'], 'document has', 'documents have')} no vector yet"
    yield f"search    {count_of(index['documents'], 'document')}{waits}"
