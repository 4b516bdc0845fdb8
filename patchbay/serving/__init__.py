"""The edge of the web server: supervisor, workers, drain and logs."""
