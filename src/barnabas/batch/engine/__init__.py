"""The engine room: loops over records and bytes, compiled by mypyc where a C compiler is at hand."""
