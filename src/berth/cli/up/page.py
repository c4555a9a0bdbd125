"""The page's process: started by `berth up`, with settings as one line of JSON on standard input.

It is a process of its own, so that the page does not slow the scheduler down.  Until the page is first asked
for anything it is a port and a link: what answers takes several times as much memory, and is imported then.
Each link that opens the page is a line on standard output.  When standard input ends, whoever started this
process is gone, and it stops, too.
"""

from __future__ import annotations

import json
import os
import select
import sys
from functools import partial

from berth.cli.up.parent import refuse, when_parent_is_gone
from berth.sockets import ServingError, listen, page_link


def main() -> int:
    line = sys.stdin.buffer.readline()
    when_parent_is_gone(partial(os._exit, 0))
    told = json.loads(line)
    host = told["server"]["host"]
    try:
        listener = listen(host, told["port"])
    except ServingError as error:
        return refuse(str(error))
    secret = os.urandom(32).hex()
    print(page_link(host, listener.getsockname()[1], secret), flush=True)  # noqa: T201 - for `berth up`
    select.select((listener,), (), ())
    from berth.cli.up.page_server import serve  # noqa: PLC0415 - nobody waited for an answer before

    serve(line, listener, secret)
    return 0


if __name__ == "__main__":
    sys.exit(main())
