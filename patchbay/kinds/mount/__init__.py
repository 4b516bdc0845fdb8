"""Mounted servers, as a configuration of kind `upstream` describes them; `patchbay/upstreams/` connects to them."""
