"""The operators' page: what an agent sees, what changed, what waits for a decision, and whether anything is wrong.

It is a process of its own, which asks the host through the operator's inbox and reads files, as commands do. Needs the
extra `web`. May import: ops and what is below it; not the daemon.

Reading order: `server` (start and stop), `guards` (sessions and refused requests), `app` (the routes), `asking` (the
way to the host), `forms`, `rendering` and `markdown`; then the pages: `needs` (the first one), `context`, `memory`,
`entries`, `notes`, `review`, `timeline` with `looking_back` and `live`, `tasks`, `health`, `talk`.
"""
