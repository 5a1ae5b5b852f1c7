"""`python -m recorder.adapters syslog|otlp ...`: a process of `veen up` [architecture]."""

from recorder.adapters.process import main

main()
