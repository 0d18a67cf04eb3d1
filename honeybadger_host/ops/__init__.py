"""Operation of a home: status, metrics, doctor, maintenance, backups, the systemd unit.

May import everything below it in the order of docs/architecture.md.

Reading order: `host` (the parts of a running host), `maintenance`, `clock`, `page`, `status`, `metrics`;
`forget_plan`, `forget_files`, `forget` and `residue`; `findings` and the folder `doctor/`; `archive` and `backup`;
`systemd`; `tokens`; `operator_client` (commands ask the host with it), `gist` (a change on one line).
"""
