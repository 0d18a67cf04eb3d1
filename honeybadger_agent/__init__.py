"""What an agent installs to use Honeybadger: a client for the file protocol. Knows nothing of the host."""

from honeybadger_agent.client import Client, SyncClient
from honeybadger_agent.errors import AgentError, ReplyTimeout, RequestFailed
from honeybadger_agent.mailbox import Mailbox, new_id

__all__ = ["AgentError", "Client", "Mailbox", "ReplyTimeout", "RequestFailed", "SyncClient", "new_id"]
