"""Every message between processes, in one module for each of their conversations.

    data     hub XPUB -> SUB              ``data``: Delta Heartbeat Barrier
    control  DEALER <-> hub ROUTER        ``connection``, ``readers``, ``publishers``, ``questions``
    bulk     DEALER <-> hub ROUTER        ``readers``: CatchUp Credit Cancel; ``data``: Chunk Delta
    catalog  DEALER <-> catalogd ROUTER   ``catalog``, ``reports``, ``questions``

Authority: docs/protocol.md. Times are microseconds since 1970, sizes bytes; the types of fields
(``fields``) have their bounds. ``numbers`` has the number of each control message.
"""
