"""The Honeybadger host: a daemon that keeps the memory of groups of LLM agents."""

__version__ = "0.1.0"
