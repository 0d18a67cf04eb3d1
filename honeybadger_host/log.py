"""The logger of the host: events are named `package.past_participle`; `observe` says where they are written."""

import sys
from typing import Any

# structlog imports rich where it is installed: 45 ms and 5 MiB at each start, for tracebacks that show local variables.
_modules: dict[str, Any] = sys.modules
_is_blocked = _modules.setdefault("rich", None) is None

import structlog  # noqa: E402

if _is_blocked:
    del _modules["rich"]

__all__ = ["log", "structlog"]

log = structlog.get_logger()
