"""The times of scheduled runs: pure functions over schedules, zones and moments.

May import: errors. Clocks are arguments; the time zones are read from the system's database.

Reading order: `times`, `due`.
"""
