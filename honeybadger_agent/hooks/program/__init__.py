"""The hook program: it hands the turns of a session to the host, each once, and answers with the group's memory.

It never blocks the tool: after any error it ends with 0, prints JSON or nothing, and reports on standard error what it
could not do. It is of the standard library and imports only itself, because a tool runs a copy of this folder with any
Python from 3.9; an import of our package would take longer than the hook. The inbox is the queue: a request in it is
served when a host runs. A mark in the inbox says how far the transcript was handed over. A hook that was killed before
it wrote the mark is repeated by the next one, and the host knows the keys of the turns.

Reading order: `events` (what an event does), `turns` (keep them), `transcripts` of the tools, `box`, `settings`.
"""
