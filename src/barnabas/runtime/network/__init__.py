"""Byte streams: the Network interface, on TCP and on asyncio."""
