"""The operators' page: the context of an agent, the changes, the waiting decisions, and the health of the host.

It is a separate process, which asks the host through the operator's inbox and reads files, as commands do. It needs the
extra `web`. May import `ops` and everything below it; not the daemon.

Reading order: `server` (start and stop), `guards` (sessions and refused requests), `app` (the routes), `visits` (what
a browser asks), `rendering` and `markdown`; then the pages: `needs` (the first one), `context`, `memory`,
`entries`, `review`, `timeline` with `looking_back`, `tasks`, `health`, `talk`.
"""
