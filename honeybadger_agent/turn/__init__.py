"""One turn of an agent: what the model is asked, the tools it may call, and when it is over.

Reading order: `orchestrator` (the loop), `thinking`, `prompt`, `toolbox`, `dispatch`, `prose`.
"""
