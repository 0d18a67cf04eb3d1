"""What other people's frameworks need. Anthropic's memory tool: `memory_tool`, `memory_commands`, `memory_texts`,
`memory_paths`, and `anthropic_memory` for its SDK.
"""
