"""Compiles the engine room with mypyc where that is possible, and builds plain Python where it is not."""

from __future__ import annotations

from setuptools import setup

setup()
