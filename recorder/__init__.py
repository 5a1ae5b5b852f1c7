"""The server drive recorder: every event, in order, provable, replayable [SDR0]."""
