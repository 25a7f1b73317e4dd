"""A process that has imported frameworks; those forked of it need not import them again.

``python template.py torch jax`` forks for each line of JSON on stdin, and says the child's process
id and then its wait status. The child runs the line's code as ``python -c`` does, to the real end
of the interpreter. `children.in_fork` speaks to it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings


def serve(names: list[str]) -> str:
    """Fork until stdin ends; returns in the forks alone, the code that they run."""
    for name in names:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of jax, which warns of every fork
            child = os.fork()
        if child == 0:
            for stream, (path, flags) in enumerate(request["streams"]):
                file = os.open(path, flags)
                os.dup2(file, stream)
                os.close(file)
            os.environ.update(request["environment"])
            sys.argv[:] = ["-c", *request["arguments"]]
            return str(request["code"])
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)
    sys.exit()


if __name__ == "__main__":
    exec(compile(serve(sys.argv[1:]), "<string>", "exec"), globals())
