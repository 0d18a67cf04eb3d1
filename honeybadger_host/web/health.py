"""The health of the host: its status, its dead letters, its log, and the doctor."""

from starlette.responses import Response

from honeybadger_host.ops.findings import faults_in
from honeybadger_host.spool.dead_letters import dead_names, drop_dead, find_dead, list_dead, retry_dead
from honeybadger_host.web.rendering import href
from honeybadger_host.web.visits import PER_PAGE, HostDown, Visit, action_in, go


def health(visit: Visit) -> Response:
    offset, status = visit.number("offset"), visit.home.status()
    if not status:
        raise HostDown
    return visit.page(
        "health.html",
        status=status,
        wrong=[fault.message for fault in faults_in(status)],
        dead=[*list_dead(visit.home.path, offset, offset + PER_PAGE)],
        dead_total=len(dead_names(visit.home.path)),
        offset=offset,
        per_page=PER_PAGE,
        done=visit.member("done", 20),
    )


def acted(visit: Visit, form: dict[str, str]) -> Response:
    home, action = visit.home.path, action_in(form, ("retry", "drop"))
    letter = find_dead(home, form.get("name", ""))
    if action == "retry":
        retry_dead(home, letter)
    else:
        drop_dead(letter)
    return go(href("health", done=action))


def doctor(visit: Visit) -> Response:
    """Run the doctor. It reads the whole journal; only the caller waits."""
    from honeybadger_host.ops.doctor import examine

    levels = ("problem", "warning", "ok")
    findings = sorted(examine(visit.home.path), key=lambda finding: levels.index(finding.level))
    return visit.page("doctor.html", findings=findings)
