"""The recorder's gateway: recording for services without crypto, a process of its own [SDR0]."""
