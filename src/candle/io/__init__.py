"""Files of tensors: safetensors, .npy and .npz.

What does the work is loaded when it is first called.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from typing import Any

    from .._native._core import Tensor

    Path = str | bytes | PathLike[str] | PathLike[bytes]

__all__ = [
    "load_npy",
    "load_npz",
    "load_safetensors",
    "safetensors_metadata",
    "save_safetensors",
]


def load_safetensors(path: Path, device: object = None, *, mmap: bool = True) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file, which is mapped into memory and not read.

    Parameters
    ----------
    path : path
        A regular file.
    device : optional
        Where the tensors are wanted; each is copied there. Default: on the host.
    mmap : bool
        False: read the file into memory of the tensors' own, each at a multiple of 256 bytes.

    Returns
    -------
    dict of str to Tensor
        In the order of the file's header. All share one private mapping of the file, which is there
        as long as one of them, or what shares its memory, is alive. They are writable; what is
        written stays in this process and never gets into the file. Pages are read when they are
        first touched. A tensor that lies at an address that is no multiple of its items' size is
        copied, once (reason ``misaligned``).

    Raises
    ------
    ValueError
        Where the file breaks the format: the header's length, JSON, names, dtypes, shapes and
        offsets, which have to cover the data without gaps or overlap, up to its last byte.
    OSError
        Where there is no such file, it cannot be read or mapped, or is no regular file.
    CopyError
        In `candle.strict`, for a misaligned tensor.

    Notes
    -----
    As with every mapped file, touching a tensor after someone has cut the file short ends the
    process (SIGBUS), and pages that were not touched yet may show what someone writes to the file.
    Files that change while they are in use are loaded with ``mmap=False``. To replace a file under
    those who have mapped it, write another and rename it, as `save_safetensors` does.

    Format: https://github.com/huggingface/safetensors. Elements smaller than a byte are packed, the
    lowest bits first; F4 comes as ``float4_e2m1fn``, and ``t.view("float4_e2m1fn_x2")`` gives the
    pairs that torch has.
    """
    from . import loading

    return loading.load(path, device, mmap)


def safetensors_metadata(path: Path) -> dict[str, str]:
    """Read the ``__metadata__`` of a safetensors file: texts by name; {} where it has none.

    The whole header is checked, and nothing but the header is read. Raises as `load_safetensors`.
    """
    from . import loading

    return loading.metadata(path)


def save_safetensors(tree: Any, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write the tensors of a structure to a safetensors file.

    Parameters
    ----------
    tree : mapping
        Tensors of any frameworks, by name; in dicts, lists, tuples, named tuples, dataclasses and
        attrs classes of any depth, whose names and numbers are joined by dots:
        ``{"layers": [{"weight": x}]}`` gives ``layers.0.weight``.
    path : path
        A new file, or one to be replaced.
    metadata : mapping of str to str, optional
        The file's ``__metadata__``.

    Raises
    ------
    TypeError
        For a leaf that is no tensor, a name or metadata that are no str.
    ValueError
        For two tensors of one name, a name the format cannot have, or a structure inside itself.
    BufferError
        For a dtype that the format has not, and for what candle refuses of every framework.
    OSError
        Where the file cannot be written.

    Notes
    -----
    Each name is written with its values, in row-major order. Tensors that share memory are each
    written in full, and share nothing when they are loaded. Tensors that require grad are written
    like others.

    The data begins at a multiple of 64 bytes, and members whose size is one lie at one too: those
    come first, then the others by the power of 2 that divides their size, so that every tensor is
    aligned to its items without the gaps that the format forbids. The bytes depend on names,
    values and metadata only, not on the order of the tree.

    The file is written beside its place, synced to the disk, and renamed: whoever has the old one
    mapped keeps it, and after a crash there is the old file or the new one. A killed process may
    leave ``.candle-*.tmp`` behind. Memory is not copied: tensors are written as they lie, others
    in blocks of 1 MB. Only what cannot be shared at all (foreign byte order, torch's conjugates,
    elements smaller than a byte with gaps) is copied, one tensor at a time.
    """
    from . import saving

    saving.save(tree, path, metadata)


def load_npy(path: Path, device: object = None, *, mmap: bool = True) -> Tensor:
    """Load the array of a ``.npy`` file, which is mapped into memory and not read.

    Parameters
    ----------
    path : path
        A regular file that numpy's ``save`` wrote, of version 1, 2 or 3, with one array; by
        Python 2 too, whose headers have long ints.
    device, mmap
        As for `load_safetensors`.

    Returns
    -------
    Tensor
        Over a private, writable mapping, as `load_safetensors` gives it. Arrays in Fortran's order
        come so, by their strides; bytes in the order of another machine are copied (reason
        ``byte_order``).

    Raises
    ------
    ValueError
        Where the file breaks the format.
    BufferError
        For elements that candle has no dtype for: Python objects, which are never unpickled, text,
        times, records.
    OSError
        As `load_safetensors`.

    Notes
    -----
    Files cut short while they are mapped: see `load_safetensors`.
    """
    from . import npy

    return npy.load(path, device, mmap)


def load_npz(
    path: Path, device: object = None, *, names: Iterable[str] | None = None, mmap: bool = True
) -> dict[str, Tensor]:
    """Load the arrays of a ``.npz`` file: mapped where they are stored, inflated where compressed.

    Parameters
    ----------
    path : path
        A zip file that numpy's ``savez`` or ``savez_compressed`` wrote.
    device, mmap
        As for `load_safetensors`.
    names : iterable of str, optional
        The arrays that are wanted; other members may be anything, and are not looked at. Default:
        all, which fails where one cannot be loaded.

    Returns
    -------
    dict of str to Tensor
        By the names they were saved under. Stored arrays share one private, writable mapping;
        those at an address that is no multiple of their items' size, as most in numpy's files are,
        are copied once (reason ``misaligned``). Compressed ones are inflated straight into memory
        of their own.

    Raises
    ------
    ValueError
        Where the file breaks the format of zip files or of arrays; for two members of one name,
        those that are no arrays, encrypted ones, and names that it does not have.
    TypeError
        For names that are no str.
    BufferError, OSError
        As `load_npy`.

    Notes
    -----
    Checksums of stored members are not looked at where they are mapped: that would read them.
    """
    from . import npz

    return npz.load(path, device, names, mmap)
