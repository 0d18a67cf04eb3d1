"""The path of a request: from a file that an agent dropped to its reply.

May import everything below it in the order of docs/architecture.md. It does not know the handlers: `compose` passes
them as a table.

Reading order: `watcher` wakes, `spool` lists the inboxes and takes a batch that is fair to all groups, `inbox` and
`request` read and parse one file, `pipeline` decides, `batch_writer` commits, `answers` replies, `unbatched` runs
queries, waiting requests and turns. They use `replies`, `rate_limits`, `turn_queue`, `senders` and `dead_letters`.
"""
