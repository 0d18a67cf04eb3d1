"""Text as values: made harmless, measured, freed of credentials; times as text. Pure."""
