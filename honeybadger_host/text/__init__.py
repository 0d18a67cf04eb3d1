"""Text as values: `neutralise` (harmless, and measured), `redaction` (no credentials), `phrases` (found in any form,
and forgotten), `time_stamps`, `json_values`, `labels`, `turn`. Pure."""
