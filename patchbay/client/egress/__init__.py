"""The proxy through which a confined program with a list of hosts reaches them, and nothing else.

proxy.py         the sockets of one program, its connections, and their limits
http_proxy.py    the requests of HTTP: CONNECT, and URLs of plain HTTP
socks_proxy.py   the requests of SOCKS5
destinations.py  whether a host may be reached, at which address, and the connection there
relaying.py      bytes in both directions until both have ended, or nothing comes any more
limits.py        the limits of one program, and of all
serving.py       starts and ends the proxy of a program, on an event loop that all programs share
"""
