"""What the operator needs: status, metrics, doctor, maintenance, backups, the systemd unit.

May import: spool, search, memory, storage, text, domain, errors, settings. Nothing below knows it.
"""
