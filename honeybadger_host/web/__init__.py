"""The operators' page: what an agent sees, what changed, what waits, whether anything is wrong.

A process of its own, which asks the host through the operator's inbox as every command does, and reads what they read;
it has no other way to memory. Needs the extra `web`. May import: ops and what is below it; not the daemon.

Reading order: `server` (its life), `access` (who comes in) and `guards` (what is refused before a page sees it), `app`
(the routes), `asking` (the host), `forms`, `rendering` and `markdown`; then the pages: `groups` with `needs`,
`context`, `memory`, `entries`, `notes`, `search`, `review`, `timeline` with `looking_back` and `live`, `tasks`,
`health`, `talk`.
"""
