"""`python -m honeybadger_host` is `honeybadger-host`."""

from honeybadger_host.cli import main

main()
