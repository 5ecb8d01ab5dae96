"""Encoders, decoders and constructors, compiled on first use.

The entry point to the two compilers.  A message class requests (class, version) once and caches the result;
see `encoder` and `decoder` for the generated code.
"""

from __future__ import annotations

from typing import Any

from barnabas.protocol.decoder import compile_decoder, compile_decoder_in_steps
from barnabas.protocol.encoder import compile_encoder, compile_encoder_in_steps
from barnabas.protocol.schema import Schema
from barnabas.protocol.source import Source

__all__ = [
    "compile_decoder",
    "compile_decoder_in_steps",
    "compile_encoder",
    "compile_encoder_in_steps",
    "install_constructor",
]


def install_constructor(schema: Schema) -> None:
    """Give the class an `__init__` with one keyword per field; each instance gets its own lists and
    structs."""
    unset = object()
    source = Source(f"constructor of {schema.name}")
    source.names["UNSET"] = unset
    parameters = []
    for known in schema.fields:
        if known.required:
            parameters.append(known.attribute)
        elif known.default is not None and (known.is_array or known.struct is not None):
            parameters.append(f"{known.attribute}=UNSET")
        else:
            parameters.append(f"{known.attribute}={source.default(known)}")
    star = "*, " if parameters else ""
    with source.block(f"def __init__(self, {star}{', '.join(parameters)}):"):
        for known in schema.fields:
            if f"{known.attribute}=UNSET" in parameters:
                with source.block(f"if {known.attribute} is UNSET:"):
                    source.assign_default(known, known.attribute)
            source.line(f"self.{known.attribute} = {known.attribute}")
        source.line("return")
    constructor: Any = source.build("__init__")
    constructor.__qualname__ = f"{schema.name}.__init__"
    schema.cls.__init__ = constructor  # type: ignore[method-assign]  # this is the point of it
