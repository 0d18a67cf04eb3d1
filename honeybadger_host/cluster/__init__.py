"""A home on several machines: its journal is a log on NATS servers, which one host writes and the others follow.

Read `records`, `servers` (the connection), `log`, `committing`, `lease`, `placing`, `snapshots`, `forwarding`,
`member`, `operating`. Nothing here is imported unless `cluster.servers` is set. May import `spool`, `memory`,
`storage` and what is below them.
"""
