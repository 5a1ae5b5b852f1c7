"""`veen query`: its commands import no framework, so they start at once [interfaces]."""
