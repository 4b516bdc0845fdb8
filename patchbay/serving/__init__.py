"""The edge of the web server: supervisor, workers, drain and logs.

The import of `allocator` sets the environment variable of the web server's allocator. It is here so that it runs before
any module of this package imports the web server.
"""

from patchbay.serving import allocator as allocator
