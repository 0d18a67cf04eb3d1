"""The operators' page in a real browser: every page, every action, hostile memory. `make test-page` runs it.

Reading order: `chromium` (the browser and its tabs), `scene` (a home with something in it), `conftest`, the tests.
"""
