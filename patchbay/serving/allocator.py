"""Configures the memory allocator of the web server: import this before the server, which reads the variable when
loaded.

The server's allocator (jemalloc, in Granian's wheels) gives every thread a cache of about 35 KiB, which threads that
mostly wait do not need. A block of 256 KiB or more, such as a large answer, returns to the system when it is freed.
`_RJEM_MALLOC_CONF` in the environment overrides this.
"""

from patchbay.settings import suggest

suggest("_RJEM_MALLOC_CONF", "tcache:false,oversize_threshold:262144")
