"""Text as values: made harmless (`neutralise`), measured (`tokens`), freed of credentials (`redaction`). Pure."""
