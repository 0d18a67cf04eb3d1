"""Adapters to other frameworks: Anthropic's memory tool."""
