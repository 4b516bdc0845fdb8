"""The edge of the web server: supervisor, workers, drain, slow clients and logs."""
