"""A server of HTTP/1.1: threads that share one epoll, the connections, and the requests on them."""
