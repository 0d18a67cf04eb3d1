"""How well memory is found again: measures, the systems measured, and the sets they are measured on.

`python -m bench.recall --locomo FILE [--precision FOLDER]`; `python -m bench.recall contexts --locomo FILE`
"""
