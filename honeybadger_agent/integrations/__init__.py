"""Adapters for other frameworks. Anthropic's memory tool: `memory_tool`, and `anthropic_memory` for its SDK. The OpenAI
Agents SDK: `openai_agents`. LangGraph: `langgraph_store`. PydanticAI: `pydantic_ai_store` and `pydantic_ai_memory`.
docs/adapters.md says what they do not do.
"""
