"""Feed candle.testing.CASES to candle.from_dlpack, one JSON line a case.

Argument: the number of the case to start from. Run by test_dlpack_import.py, which starts it again
behind a case that killed it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import expected

import candle
from candle.testing import CASES

SHAREABLE = {"share", "read-only"}


def attempt(case: Any, copy: bool | None) -> dict[str, Any]:
    producer = case.producer()
    wanted = expected.values(producer) if case.wanted != "refuse" else None
    got: dict[str, Any] = {}
    try:
        t = candle.from_dlpack(producer, copy=copy)
    except Exception as error:
        got["error"] = [kind.__name__ for kind in type(error).__mro__]
        got["message"] = str(error)
        del error
    else:
        got |= {
            "shape": t.shape == producer.shape,
            "address": t.data_ptr() == producer.address + producer.byte_offset,
            "readonly": t.readonly,
            "deletes_meanwhile": producer.deletes,
            "values": wanted is None or t.tolist() == wanted,
        }
        if case.wanted == "read-only":
            try:
                t[...] = 77
            except ValueError:
                got["write"] = "ValueError"
            else:
                got["write"] = "written"
            got["untouched"] = expected.values(producer) == wanted
        del t
    return got | {
        "exports": producer.exports,
        "deletes": producer.deletes,
        "destructors": producer.destructors,
        "calls": [sorted(call) for call in producer.calls],
    }


for number, case in list(enumerate(CASES))[int(sys.argv[1]) :]:
    print(json.dumps({"case": number}), flush=True)
    results = {repr(copy): attempt(case, copy) for copy in (None, False, True)}
    print(json.dumps({"case": number, "results": results}), flush=True)
