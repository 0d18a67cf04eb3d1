"""Pure functions on text: neutralise, count tokens, redact credentials, format times."""
