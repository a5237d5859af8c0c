"""``python -m gtape.verify.campaigns.child``: does shards for an executor, in a process that can be ended.

Each line of standard input is a description, each line of standard output a result, as JSON. The process ends when its
standard input ends, even in the middle of a shard.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import IO

from gtape.verify.campaigns.shards import work

__all__ = ["main"]


def main() -> None:
    """Do the shards of standard input."""
    # Output of a shard, also of C code, goes to standard error.
    answers: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)

    # In a thread of its own, because the main thread is the one that a time limit interrupts.
    threading.Thread(target=listen, name="gtape: is the parent there?", daemon=True).start()
    while True:
        print(json.dumps(work(json.loads(waiting.get())), allow_nan=False), file=answers, flush=True)


if __name__ == "__main__":
    main()
