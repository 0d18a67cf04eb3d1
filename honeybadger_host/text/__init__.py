"""Text as values: `neutralise` (harmless), `tokens` (measured), `redaction` (no credentials), `time_stamps`. Pure."""
