"""The operator's needs: status, metrics, doctor, maintenance, backups, the systemd unit.

May import: spool, handlers, curation, work, search, memory, storage, text, errors, settings.

Reading order: `host` (the parts of a running host), `maintenance`, `scheduler`, `clock`, `page`, `status`,
`metrics`; `forget_plan`, `forget_derived`, `forget` and `residue`; `doctor` with `findings`, `home_checks`,
`machine_checks` and `agent_checks`; `archive`, `backup`, `restore`; `systemd`; `tokens`; `operator_client` (how
commands ask the host) and `gist` (what they print of a change).
"""
