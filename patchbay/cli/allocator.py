"""How the web server keeps memory: import this before the server, which reads it once, when it is loaded.

The server's allocator (jemalloc, in Granian's wheels) gives every thread a store of free memory of some 35 KiB. An
open stream holds a thread and asks for memory hardly ever, so a thousand of them would hold half as much again as
they need. Who sets `_RJEM_MALLOC_CONF` in the environment decides otherwise.
"""

from patchbay.settings import suggest

suggest("_RJEM_MALLOC_CONF", "tcache:false")
