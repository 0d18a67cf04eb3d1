"""The path of a request: from a file that an agent dropped to its reply.

May import: journal, files, text, errors, and the wire models. It does not know the handlers: they reach it as a table.

Reading order: `watcher` wakes, `spool` lists the inboxes and takes a batch, as large as `fairness` says,
`inbox` and `request` read and parse one file, `pipeline` decides, `batch_writer` commits, `answers` replies, `beside`
runs what no batch decides; `replies`, `rate_limits`, `turn_queue`, `senders`, `dead_letters` and `dead_letter_files`
are what they consult on the way.
"""
