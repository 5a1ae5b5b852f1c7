"""`veen recorder`: producers, recording, replay and care of the recorder [SDR0]."""
