"""`python -m recorder.gateway --state-dir D (--fd N | --port P)` [architecture, Processes]."""

from recorder.gateway.main import main

main()
