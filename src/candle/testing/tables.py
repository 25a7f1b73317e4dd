"""Types that carry a C exchange table whose every slot can misbehave."""

from __future__ import annotations

import copy
import ctypes as C
from typing import TYPE_CHECKING, Any

from .abi import SLOTS, DLPackExchangeAPI, DLTensor
from .capsules import for_good, new_capsule
from .exchange import CAPSULE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from .producers import Producer

    Slot = Callable[..., int] | int | None

# Consumers may cache a table for the life of the process.
_kept: list[object] = for_good([])

_PROTOTYPES = {
    "managed_tensor_allocator": C.CFUNCTYPE(
        C.c_int, C.c_void_p, C.POINTER(C.c_void_p), C.c_void_p, C.c_void_p
    ),
    "managed_tensor_from_py_object_no_sync": C.PYFUNCTYPE(
        C.c_int, C.c_void_p, C.POINTER(C.c_void_p)
    ),
    "managed_tensor_to_py_object_no_sync": C.PYFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(C.c_void_p)),
    "dltensor_from_py_object_no_sync": C.PYFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(DLTensor)),
    "current_work_stream": C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.POINTER(C.c_void_p)),
}

# A ctypes callback cannot leave an error set. This function of CPython's can: as a slot it calls
# the object's __bool__, ignores its second argument, and gives -1 with the error that __bool__
# raises.
_FAIL_WITH_ERROR = C.cast(C.PyDLL(None).PyObject_IsTrue, C.c_void_p).value


def make_exchange_table(
    *, version: tuple[int, int] = (1, 3), prev_api: int | None = None, **slots: Slot
) -> int:
    """Make an exchange table, which lives as long as the process; returns its address.

    Parameters
    ----------
    version
        What its header says.
    prev_api
        Address of the table of an older version.
    **slots
        By the names in ``dlpack.h``: the address of a C function, or a Python callable that gets
        the slot's arguments (pointers to objects as ints) and returns its code. Slots not named are
        NULL.
    """
    table = DLPackExchangeAPI()
    table.header.version.major, table.header.version.minor = version
    table.header.prev_api = prev_api
    for name, slot in slots.items():
        if callable(slot):
            function = _PROTOTYPES[name](slot)
            _kept.append(function)
            setattr(table, name, C.cast(function, C.c_void_p))
        else:
            setattr(table, name, slot)
    _kept.append(table)
    return C.addressof(table)


def exchange_capsule(address: int, name: str = CAPSULE_NAME) -> object:
    """Make a capsule over an exchange table, for a type's ``__dlpack_c_exchange_api__``."""
    return new_capsule(address, name)


class ExchangeProducer:
    """Base of the types that `exchange_producer` makes: a `Producer` behind a C exchange table.

    Attributes
    ----------
    producer
        What its structs say and count.
    slot_calls
        Names of the slots called so far, in order.
    """

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.slot_calls: list[str] = []


class _WithDLPack(ExchangeProducer):
    def __dlpack_device__(self) -> object:
        return self.producer.__dlpack_device__()

    def __dlpack__(self, *args: object, **keywords: Any) -> object:
        return self.producer.__dlpack__(*args, **keywords)


def _object_at(address: int) -> Any:
    return C.cast(address, C.py_object).value


def _from_py_object(x: int, out: Any) -> int:
    self = _object_at(x)
    self.slot_calls.append("managed_tensor_from_py_object_no_sync")
    out[0] = self.producer.export()
    return 0


def _dltensor_from_py_object(x: int, out: Any) -> int:
    self = _object_at(x)
    self.slot_calls.append("dltensor_from_py_object_no_sync")
    _kept.append(self.producer.fill(out[0]))
    return 0


def _current_work_stream(_device_type: int, _device_id: int, out: Any) -> int:
    out[0] = None
    return 0


def _fail_silently(*_arguments: object) -> int:
    return -1


def _give_nothing(_x: int, out: Any) -> int:
    out[0] = None
    return 0


def exchange_producer(
    producer: Producer,
    *,
    version: tuple[int, int] = (1, 3),
    prev_api: int | None = None,
    fails: BaseException | str | None = None,
    without: tuple[str, ...] = (),
    dlpack: bool = False,
    attribute: object = None,
    **slots: Slot,
) -> ExchangeProducer:
    """Make an object of a new type that offers `producer` through a C exchange table.

    Parameters
    ----------
    producer
        Its fields go into the structs; its ``deletes`` and ``notes`` count. It is always a
        versioned struct.
    version, prev_api
        Of the table's header.
    fails
        How the two slots that describe an object fail: an exception (-1 with that error set),
        ``"silently"`` (-1 with none set), or ``"empty"`` (0, and NULL for a result).
    without
        Slots to leave NULL.
    dlpack
        Give the type ``__dlpack__`` and ``__dlpack_device__`` as well.
    attribute
        What the type carries instead of the capsule with its table.
    **slots
        As for `make_exchange_table`; these win.
    """
    members: dict[str, Any] = {}
    describe: Slot = _from_py_object
    borrow: Slot = _dltensor_from_py_object
    if isinstance(fails, BaseException):
        error = fails

        def raise_error(self: ExchangeProducer) -> bool:
            self.slot_calls.append("failing slot")
            raise copy.copy(error)

        members["__bool__"] = raise_error
        describe = borrow = _FAIL_WITH_ERROR
    elif fails == "silently":
        describe = borrow = _fail_silently
    elif fails == "empty":
        describe = _give_nothing
    filled: dict[str, Slot] = {
        "managed_tensor_allocator": _fail_silently,
        "managed_tensor_from_py_object_no_sync": describe,
        "managed_tensor_to_py_object_no_sync": _fail_silently,
        "dltensor_from_py_object_no_sync": borrow,
        "current_work_stream": _current_work_stream,
        **slots,
    }
    table = make_exchange_table(
        version=version,
        prev_api=prev_api,
        **{name: slot for name, slot in filled.items() if name in SLOTS and name not in without},
    )
    members["__dlpack_c_exchange_api__"] = (
        exchange_capsule(table) if attribute is None else attribute
    )
    base = _WithDLPack if dlpack else ExchangeProducer
    foreign: Any = type("ForeignTensor", (base,), members)
    made: ExchangeProducer = foreign(producer)
    return made
