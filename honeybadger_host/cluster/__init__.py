"""A home on several machines: its journal is a log on NATS servers, which one host writes and the others follow.

Read `records`, `servers` (the connection), `log`, `lease`, `files`, `snapshots`, `joining`, `forwarding`, `machines`,
`member`, `operating`, `checks`. Nothing here is imported unless `cluster.servers` is set. May import `ops` and
everything below.
"""

from honeybadger_agent.wording import HOST_EXTRA
from honeybadger_host.errors import SettingsError

try:
    import nats  # noqa: F401
except ModuleNotFoundError:
    why = f"several machines need nats-py, which is not installed: {HOST_EXTRA.format('cluster')}"
    raise SettingsError(why) from None
