"""Every value that crosses the boxes: envelope, payloads, results, replies, streams (docs/protocol.md).

Bytes become models here, once; agents and host share the same models, and `docs/schemas/` is generated from them.
Each module has one part of the protocol, with its types of requests in the order of the protocol's table.
"""

from honeybadger_agent.wire.base import *
from honeybadger_agent.wire.host import *
from honeybadger_agent.wire.notes import *
from honeybadger_agent.wire.conversation import *
from honeybadger_agent.wire.context import *
from honeybadger_agent.wire.labels import *
from honeybadger_agent.wire.entries import *
from honeybadger_agent.wire.search import *
from honeybadger_agent.wire.working import *
from honeybadger_agent.wire.sessions import *
from honeybadger_agent.wire.turns import *
from honeybadger_agent.wire.messages import *
from honeybadger_agent.wire.tasks import *
from honeybadger_agent.wire.delegation import *
from honeybadger_agent.wire.proposals import *
from honeybadger_agent.wire.imports import *
from honeybadger_agent.wire.refusals import *
from honeybadger_agent.wire.envelope import *
