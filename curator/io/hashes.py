"""Content hashes and id digests of many records at once; the values are those of `schema.record`."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from curator.kernels.content import encode_records
from curator.kernels.texts import text_buffers
from curator.kernels.xxh3 import xxh3_128
from curator.schema.record import HASH_TYPE, HASH_VERSION, HASHED_TEXTS, sum_of_digests

_VERSION = np.frombuffer(HASH_VERSION, np.uint8)
_ROW_TAGS = np.frombuffer(b"TKP", np.uint8)

Texts = tuple[np.ndarray, np.ndarray, np.ndarray]


def hash_contents(
    first_messages: np.ndarray,
    messages: Mapping[str, pa.StringArray],
    tools: pa.StringArray,
    verifier_kind: pa.StringArray,
    verifier_payload: pa.StringArray,
) -> pa.FixedSizeBinaryArray:
    """The content hash of records without a rejected side or images.

    Record r has the messages `first_messages[r]` to `first_messages[r + 1]` (int64), whose texts are columns by name.
    """
    texts, starts, valid = zip(*(_texts(messages[name]) for name in HASHED_TEXTS), strict=True)
    row_texts, row_starts, row_valid = zip(*map(_texts, (tools, verifier_kind, verifier_payload)), strict=True)
    data, begins = encode_records(
        _VERSION, read_only(first_messages), texts, starts, valid, _ROW_TAGS, row_texts, row_starts, row_valid
    )
    digests = xxh3_128(read_only(data), read_only(begins))
    return pa.FixedSizeBinaryArray.from_buffers(HASH_TYPE, len(digests), [None, pa.py_buffer(digests.astype(">u8"))])


def digest_ids(ids: pa.StringArray) -> int:
    """`schema.record.ids_digest` of many ids."""
    data, starts = text_buffers(ids)
    return sum_of_digests(xxh3_128(read_only(data), read_only(starts)).astype(">u8").tobytes())


def _texts(texts: pa.StringArray) -> Texts:
    """Bytes, starts and validity, all read-only: a kernel is compiled anew for arrays that can be written."""
    if texts.null_count == len(texts):
        data, starts = np.empty(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
        valid = np.zeros(len(texts), np.uint8)
    else:
        data, starts = text_buffers(texts)
        valid = texts.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    return read_only(data), read_only(starts), read_only(valid)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view
