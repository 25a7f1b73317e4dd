"""What a move would do, and why: `Reason`, `Plan`, and the exception that carries a plan."""

from __future__ import annotations

from ._native import _core
from .codes import ReasonCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

__all__ = ["CopyError", "Plan", "ReadOnlyCopyWarning", "Reason", "make_plan", "refusal_of"]

# What to do about each reason. The facts are measured where the decision is made, in the native
# core.
REMEDIES: Final = {
    "requested": "leave copy=True out to share",
    "dtype": "leave dtype= out to share",
    "order": "allow the copy, or start from memory in row-major order",
    "byte_order": 'allow the copy, or take x.astype(x.dtype.newbyteorder("=")) first',
    "misaligned": "allow the copy, or allocate aligned memory with candle.empty(...)",
    "odd_stride": "allow the copy, or start from elements that lie next to each other: x.copy()",
    "negative_stride": "allow the copy, or take t.contiguous() first",
    "read_only": "allow the copy, or take t.copy() first",
    "not_dense": "allow the copy, or take t.contiguous() first",
    "alignment": "allow the copy, or allocate with candle.empty(..., align=256)",
    "conj_bit": "allow the copy, or call .resolve_conj() first",
    "neg_bit": "allow the copy, or call .resolve_neg() first",
    "packed": 'allow the copy, or take t.view("uint8") for the bytes',
    "no_export": "allow the copy, or convert it there to a dtype that its framework exports, if "
    "there is one",
    "device": "allow the copy: cupy or torch copies it across",
    "python_values": "allow the copy, or start from an array",
    "bitmap": 'allow the copy, or use a byte for each: x.cast("int8"), t.view("uint8")',
    "permuted": "allow the copy, or hand it on with its axes as they lie: t.permute(...)",
    "chunks": "allow the copy, or take them one by one: "
    'candle.from_arrow(x, chunks="list"); or join them first: x.combine_chunks()',
    "columns": "allow the copy, or take one column: candle.from_arrow(x, column=0)",
    "filled": 'share the values and take their mask: candle.from_arrow(x, nulls="mask")',
    "consumer_copies": "allow the copy: the consumer has no memory but its own",
    "producer_copies": "allow the copy, or hand over the array behind it, where there is one",
    # From here on a copy does not help.
    "dtype_unknown": 'convert first: t.to("float32"), or to any dtype that both know',
    "would_narrow": 'convert on purpose: t.to("float32") or the like; jax takes 64 bits after '
    'jax.config.update("jax_enable_x64", True)',
    "foreign_device": "copy it with its own framework first",
    "requires_grad": "call .detach() on it first",
    "no_cast": "take the real part first, with the framework it comes from",
    "pairs": 'take pairs apart first: t.view("float4_e2m1fn"); make them last: '
    't.to("float4_e2m1fn").view("float4_e2m1fn_x2")',
    "no_axes": "give it an axis first: t.reshape(1)",
    "long_rows": "make rows of fewer elements first, with t.reshape()",
    "axes": "give it another shape first: t.reshape(...)",
    "no_dtype": 'convert it first, with its own framework: x.astype("int8"), x.cast("float32") or '
    "the like",
    "masked": "fill the mask first: x.filled(value)",
    "nulls": "fill the nulls first: x.fill_null(value); or drop them: x.drop_null(); or take them "
    'as a mask: candle.from_arrow(x, nulls="mask")',
    "ragged": "pad the rows to one length first; or take their items alone: x.flatten()",
    "encoded": "decode it first: x.dictionary_decode(), or pyarrow.compute.run_end_decode(x)",
    "mixed": 'name one dtype for all: candle.from_arrow(x, dtype="float64"); or take one column: '
    "candle.from_arrow(x, column=0)",
    "sparse": "make it dense first: x.to_dense(), or x.todense() where it has that",
    "no_memory": "give it memory first; a meta, fake or emptied tensor has a shape and no elements",
    "traced": "hand it over outside of the function that is transformed or traced",
    "quantised": "take x.dequantize() or x.int_repr() first",
    "nested": "pad it first: torch.nested.to_padded_tensor(x, 0.0)",
    "wrapper": "unwrap it first, with the library that made it",
    "python_objects": "make it of numbers first; object arrays often come of ragged lists",
    "structured": 'take one field at a time: x["name"]',
    "datetime": 'take its integers first: x.view("int64"), or '
    'candle.from_arrow(x, times="integers")',
    "long_double": 'convert it first: x.astype("float64"), or x.astype("complex128") if complex',
    "text": "encode the text as numbers first",
    "bits": 'view it as an integer dtype first: x.view("uint8") in numpy, x.view(torch.uint8)',
    "producer": "copy it with its own framework first",
}


class ReadOnlyCopyWarning(UserWarning):
    """Read-only memory was copied because the consumer has no read-only tensors."""

    __module__ = "candle"


class Reason:
    """One reason why a move cannot share memory.

    Attributes
    ----------
    code : ReasonCode
        The kind of reason, for programs: a member of an enum, and a str.
    fact : str
        What was measured, for people.
    remedy : str
        What to do about it.
    """

    __module__ = "candle"
    __slots__ = ("code", "fact")

    def __init__(self, code: str, fact: str) -> None:
        self.code: ReasonCode = ReasonCode(code)
        self.fact: str = fact

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES[self.code]

    def to_dict(self) -> dict[str, str]:
        """Give the reason as what JSON can say."""
        return {"code": self.code.value, "fact": self.fact, "remedy": self.remedy}

    def __repr__(self) -> str:
        return f"Reason({self.code.value!r}: {self.fact}; {self.remedy})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reason):
            return NotImplemented
        return (self.code, self.fact) == (other.code, other.fact)

    def __hash__(self) -> int:
        return hash((self.code, self.fact))


class Plan:
    """What one move does: its route, whether it shares, and every reason if it does not.

    Attributes
    ----------
    route : str
        The protocol the move takes.
    action : str
        ``"share"``, ``"copy"`` or ``"refuse"``.
    nbytes : int
        Bytes to be copied; those of the copy that was refused where ``action`` is ``"refuse"``.
    reasons : tuple of Reason
        Empty where the move shares.
    producer, consumer : str
        Who has the memory, and who gets it.
    steps : tuple of Plan
        The moves that it is made of, where it goes into candle and out again; else empty.
    """

    __module__ = "candle"
    __slots__ = ("action", "consumer", "nbytes", "producer", "reasons", "route", "steps")

    def __init__(
        self,
        route: str,
        action: str,
        nbytes: int,
        reasons: tuple[Reason, ...],
        producer: str,
        consumer: str,
        steps: tuple[Plan, ...] = (),
    ) -> None:
        self.route: str = route
        self.action: str = action
        self.nbytes: int = nbytes
        self.reasons: tuple[Reason, ...] = reasons
        self.producer: str = producer
        self.consumer: str = consumer
        self.steps: tuple[Plan, ...] = steps

    def __repr__(self) -> str:
        head = f"{self.producer} -> {self.consumer} by {self.route}: {self.action}"
        if self.nbytes:
            head += f", {self.nbytes} bytes"
        return "\n  ".join([head, *(f"{r.code}: {r.fact}; {r.remedy}" for r in self.reasons)])

    def _repr_html_(self) -> str:
        head, *_ = repr(self).split("\n", 1)
        if not self.reasons:
            return f"<b>{escaped(head)}</b>"
        rows = "".join(
            f"<tr><td>{r.code}</td><td>{escaped(r.fact)}</td><td>{escaped(r.remedy)}</td></tr>"
            for r in self.reasons
        )
        return (
            f"<b>{escaped(head)}</b><table><tr><th>reason</th><th>fact</th><th>remedy</th></tr>"
            f"{rows}</table>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as what JSON can say."""
        return {
            "producer": self.producer,
            "consumer": self.consumer,
            "route": self.route,
            "action": self.action,
            "nbytes": self.nbytes,
            "reasons": [r.to_dict() for r in self.reasons],
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in Plan.__slots__)

    def refused(self) -> Plan:
        """Give the plan of the same move where its copy is forbidden."""
        return Plan(
            self.route,
            "refuse",
            self.nbytes,
            self.reasons,
            self.producer,
            self.consumer,
            self.steps,
        )


def escaped(text: str) -> str:
    """Give text as it stands in HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class CopyError(BufferError, ValueError):
    """A move needs a copy, and copies are forbidden.

    Attributes
    ----------
    plan : Plan
        The move that was refused, with the reasons of the copy it would have been.
    """

    __module__ = "candle"

    def __init__(self, message: str, plan: Plan) -> None:
        super().__init__(message)
        self.plan = plan

    def __reduce__(self) -> tuple[type[CopyError], tuple[str, Plan]]:
        return type(self), (str(self), self.plan)


FATAL: Final = frozenset(REMEDIES) - frozenset(_core.curable_reasons)  # no copy puts them right


def make_plan(
    route: str,
    action: str,
    nbytes: int,
    reasons: list[tuple[str, str]],
    producer: str,
    consumer: str,
) -> Plan:
    """Build a plan of what the native decision says."""
    return Plan(route, action, nbytes, tuple(Reason(*r) for r in reasons), producer, consumer)


def refusal_of(plan: Plan, by: str = "") -> BufferError:
    """Build the exception of a refused move: a CopyError where a copy would have helped.

    Either has the plan as its attribute `plan`. `by` says who forbids the copy.
    """
    fatal = [r for r in plan.reasons if r.code in FATAL]
    told = fatal or [r for r in plan.reasons if r.code != "requested"] or list(plan.reasons)
    why = "; ".join(f"{r.fact} ({r.remedy})" for r in told)
    refused = f"{plan.producer} cannot go to {plan.consumer}"
    if plan.producer == "candle" and (plan.consumer == "candle" or plan.consumer.endswith("()")):
        refused = "the tensor cannot be made so"  # it goes nowhere: to(), reshape(), order=
    if fatal:
        error = BufferError(f"{refused}: {why}")
        error.__dict__["plan"] = plan
        return error
    return CopyError(f"{refused} without a copy{by}: {why}", plan)


_core.register(make_plan=make_plan)
