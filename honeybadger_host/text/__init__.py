"""Text as values: `neutralise` (harmless), `tokens` (measured), `redaction` (no credentials), `phrases` (found in
any form, and forgotten), `time_stamps`. Pure."""
