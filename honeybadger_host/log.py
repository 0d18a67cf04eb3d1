"""The logger of the host: events are named `package.past_participle`; `observe` says where they are written."""

from __future__ import annotations

import structlog

log = structlog.get_logger()
