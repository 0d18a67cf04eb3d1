"""Text as values: `neutralise` (harmless, and measured), `redaction` (no credentials), `phrases` (found in any form,
and forgotten), `time_stamps`, `labels`, `turn`. Pure."""
