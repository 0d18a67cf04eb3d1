"""The tests. For each promise, docs/guarantees.md names those that hold it; `house` sees that they are there.

`flows` is a real host as its agents, its operator and people meet it, a file for each subject; `crash` kills it and
cuts its power; `cluster` is several machines, `browser` the operators' page in Chromium, `fuzz` any bytes as a request.
`host` and `agent` are the parts of the two packages, in the packages' own folders.

What they share: `conftest` (homes, hosts, clients), `hosting` (a host and a sender as processes), `commands` (what the
operator's commands say), `people` (who edits files beside the host), `terminal`, `page` (a browser without a screen),
`endpoint` (a model over HTTP); in `flows.world` disks, calls and clocks that fail, in `crash.hosts` hosts to be killed.
"""
