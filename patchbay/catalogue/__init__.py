"""From a name or a CID to a Server: what is plugged in, kept up to date, each version for ever."""
