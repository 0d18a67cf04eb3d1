"""One turn of an agent: the prompt for the model, the tools it may call, and the limits that end the turn.

Reading order: `orchestrator` (the loop), `thinking`, `prompt`, `toolbox`, `dispatch`, `prose`.
"""
