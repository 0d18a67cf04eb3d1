"""`python -m honeybadger_agent.cli`."""

from honeybadger_agent.cli import main

main()
