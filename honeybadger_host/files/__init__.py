"""Files: opened, read and written safely below the home folder.

May import: text, errors. Reading order: `safe_files`, `unsynced`, `file_cache`; `home`, `group_folders`.
"""
