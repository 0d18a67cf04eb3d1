"""The road from a dropped file to its reply."""
