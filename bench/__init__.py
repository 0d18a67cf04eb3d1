"""Speed and memory, measured on the real daemon against a floor of the same run. `python -m bench`."""
