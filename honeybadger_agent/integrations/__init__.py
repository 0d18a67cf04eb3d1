"""Adapters for other frameworks, each with an extra.

Anthropic's memory tool: `anthropic_memory`. The OpenAI Agents SDK: `openai_agents`. LangGraph: `langgraph_store`.
PydanticAI: `pydantic_ai_store` and `pydantic_ai_memory`. docs/adapters.md lists their limits.
"""
