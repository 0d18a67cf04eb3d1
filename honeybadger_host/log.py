"""The logger of the host: `log.warning("package.past_participle", key=value)`; `observe` says where it writes."""

from __future__ import annotations

import structlog

log = structlog.get_logger()
