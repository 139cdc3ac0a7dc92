"""Machine instructions that numba has no word for: an unaligned load, a copy, the product of 64 bits by 64."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load64(typing_context: Any, data: Any, at: Any) -> Any:
    """Eight bytes of a uint8 array from `at` on as a little-endian uint64; nothing checks the bounds."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = cgutils.pointer_add(builder, array.data, arguments[1])
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), build


def _multiply64(typing_context: Any, left: Any, right: Any) -> Any:
    """The low and the high half of the product of two uint64."""
    result = types.UniTuple(types.uint64, 2)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        low = builder.trunc(product, ir.IntType(64))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return context.make_tuple(builder, result, (low, high))

    return result(types.uint64, types.uint64), build


def _copy_bytes(typing_context: Any, target: Any, at: Any, source: Any, begin: Any, size: Any) -> Any:
    """Copy `size` bytes of one uint8 array from `begin` on into another at `at`; nothing checks the bounds."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        written = context.make_array(kinds[0])(context, builder, arguments[0])
        read = context.make_array(kinds[2])(context, builder, arguments[2])
        cgutils.raw_memcpy(
            builder,
            cgutils.pointer_add(builder, written.data, arguments[1]),
            cgutils.pointer_add(builder, read.data, arguments[3]),
            arguments[4],
            1,
        )
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), build


# The decorator would hide that the first parameter is numba's own.
load64: Any = intrinsic(_load64)
multiply64: Any = intrinsic(_multiply64)
copy_bytes: Any = intrinsic(_copy_bytes)
