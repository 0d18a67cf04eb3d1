"""The faults in a host's status, as `status` and the page show them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from honeybadger_agent.wording import count_of, in_words

_LATE_SECONDS: Final = 5.0  # a status this old is late: one is written every second


def faults_in(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong, each in one line. A part that the status lacks has no faults."""
    age = time.time() - status.get("written_at", time.time())
    if age > _LATE_SECONDS:
        yield f"the status was written {in_words(age)} ago: the host hangs, or cannot write: see doctor"
    agents, curation, journal = (status.get(part, {}) for part in ("agents", "curation", "journal"))
    lists = (
        ("over a limit within 10 minutes", status.get("limits", {}).get("reached_lately", ())),
        ("large", [f"groups/{large}" for large in status.get("large_memories", ())]),
        ("replies cannot be written now", status.get("unanswered", ())),
        ("not served", status.get("boxes_refused", ())),
        ("the journal is damaged, see `honeybadger-host doctor`", journal.get("damaged", ())),
        ("cannot be written now", status.get("files_behind", ())),
        ("agent as it was before", [f"{file}: {why}" for file, why in agents.get("refused", {}).items()]),
        ("task does not run", (status.get("tasks") or {}).get("refused", ())),
    )
    for what, found in lists:
        yield from (f"{what}: {each}" for each in found)
    for file in status.get("damaged", ()):
        yield f"{file} cannot be read any more: its last good version is served; mend it, what agents change is merged"
    for job in curation.get("failed", ()):
        yield f"curation failed: {job['job']}: {job['why']}; again in {in_words(job['again_in_seconds'])}"
    for target in status.get("push", ()):
        if (failed := target["failed"]) is not None:
            waits = f"message {failed['seq']} of {failed['group']} waits for {in_words(failed['for_seconds'])}"
            yield f"{target['target']}: {waits}: {failed['why']}; again in {in_words(failed['again_in_seconds'])}"
    if status.get("stuck"):
        yield f"{count_of(status['stuck'], 'request')} cannot be removed"
    if not status.get("watcher", {}).get("is_alive", True):
        yield "the watcher is off: requests are found by the sweep only"
