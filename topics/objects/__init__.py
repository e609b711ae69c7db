"""Catalog objects as bytes and back: names, Thrift structs, blocks, values, filters.

Pure: plain functions and frozen values; msgpack and zstandard are used here, no Thrift library.
Objects of HMS are kept byte for byte. Bytes from a peer are checked, and raise WireError.
Names are imported from their modules: none is re-exported.
"""
