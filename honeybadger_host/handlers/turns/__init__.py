"""Turns of an agent: asked for, run, stopped, and shown while they run.

Reading order: `chat_turn`, `clean_model`, `output`.
"""
