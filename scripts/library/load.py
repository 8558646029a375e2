"""A fixed load for a key-value store: `load.py redis|memcached SOCKET`.

Waits for the server's socket, sends batches of commands and waits for all replies of each, then
shuts the server down.
"""

import random
import socket
import sys
import time

KEYS = 20_000
REQUESTS = 60_000
BATCH = 64


def connect(path):
    deadline = time.monotonic() + 120
    while True:
        try:
            link = socket.socket(socket.AF_UNIX)
            link.connect(path)
            return link
        except OSError:
            link.close()
            if time.monotonic() > deadline:
                sys.exit(f"load.py: no server at {path}")
            time.sleep(0.1)


def redis(*words):
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def redis_requests(draw):
    for key in range(KEYS):
        yield redis("SET", f"user:{key}", f"{draw.getrandbits(400):0100x}")
    for _ in range(REQUESTS):
        key = int(KEYS ** draw.random()) * 7919 % KEYS
        kind = draw.random()
        if kind < 0.6:
            yield redis("GET", f"user:{key}")
        elif kind < 0.8:
            yield redis("SET", f"user:{key}", f"{draw.getrandbits(400):0100x}")
        elif kind < 0.9:
            yield redis("ZADD", f"rank:{key % 16}", draw.randrange(10**6), f"user:{key}")
        else:
            yield redis("ZRANK", f"rank:{key % 16}", f"user:{key}")


def redis_reply(reader):
    line = reader.readline()
    if line[:1] == b"$" and int(line[1:]) >= 0:
        reader.read(int(line[1:]) + 2)
    if not line or line[:1] == b"-":
        sys.exit(f"load.py: the server said {line!r}")


def memcached_requests(draw):
    def store(key):
        value = f"{draw.getrandbits(1600):0400x}".encode()
        return b"set user:%d 0 0 %d\r\n%s\r\n" % (key, len(value), value)

    for key in range(KEYS):
        yield store(key)
    for _ in range(REQUESTS):
        key = int(KEYS ** draw.random()) * 7919 % KEYS
        yield store(key) if draw.random() < 0.1 else b"get user:%d\r\n" % key


def memcached_reply(reader):
    line = reader.readline()
    if line.startswith(b"VALUE"):
        reader.read(int(line.split()[3]) + 2)
        line = reader.readline()
    if line.strip() not in (b"STORED", b"END"):
        sys.exit(f"load.py: the server said {line!r}")


STORES = {
    "redis": (redis_requests, redis_reply, redis("SHUTDOWN", "NOSAVE")),
    "memcached": (memcached_requests, memcached_reply, b"shutdown\r\n"),
}


def main():
    store, path = sys.argv[1:]
    requests, reply, stop = STORES[store]
    link = connect(path)
    reader = link.makefile("rb")
    batch = []
    for request in requests(random.Random(1)):
        batch.append(request)
        if len(batch) == BATCH:
            link.sendall(b"".join(batch))
            for _ in batch:
                reply(reader)
            batch.clear()
    link.sendall(stop)
    reader.read()


if __name__ == "__main__":
    main()
