"""Catalog objects as bytes and back: names, Thrift structs, blocks, values, filters.

Pure: plain functions and frozen values; msgpack and zstandard are used here, no Thrift library.
What HMS returned is kept byte for byte; what is read from a peer is checked and raises WireError.
Names are imported from their modules: none is re-exported.
"""
