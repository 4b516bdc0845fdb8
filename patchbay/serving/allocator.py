"""How the web server keeps memory: import this before the server, which reads it once, when it is loaded.

The server's allocator (jemalloc, in Granian's wheels) gives every thread a store of free memory of some 35 KiB, which
threads that mostly wait do not need. A block of 256 KiB or more, such as a large answer, goes back to the system as
soon as it is freed. `_RJEM_MALLOC_CONF` in the environment decides otherwise.
"""

from patchbay.settings import suggest

suggest("_RJEM_MALLOC_CONF", "tcache:false,oversize_threshold:262144")
