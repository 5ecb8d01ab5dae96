"""Compiles the engine room with mypyc where that is possible, and builds plain Python where it is not.

`BARNABAS_COMPILE=0` skips compiling, `BARNABAS_COMPILE=1` makes a failure to compile fatal.  Otherwise a
build without a C compiler, without Python's headers or without mypyc says so in one line and goes on.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = "barnabas.batch.engine"
ENGINE = Path("src", *PACKAGE.split("."))
SWITCH = os.environ.get("BARNABAS_COMPILE", "")
SUFFIX = EXTENSION_SUFFIXES[0]
BUILDING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


class CannotCompileError(Exception):
    """Why this machine gets plain Python."""


def engine_package() -> ModuleType:
    """The package's own rules about compiled modules, loaded from its file: nothing is installed yet."""
    spec = importlib.util.spec_from_file_location("engine_rules", ROOT / ENGINE / "__init__.py")
    if spec is None or spec.loader is None:
        raise CannotCompileError(f"{ENGINE} cannot be read")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def give_up(reason: str) -> None:
    if SWITCH == "1":
        raise SystemExit(f"barnabas: the engine could not be compiled: {reason}")
    sys.stderr.write(f"barnabas: the engine stays plain Python: {reason}\n")


def probe_compiler() -> None:
    """Compile a file that includes Python's header, before mypyc works for nothing."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler, get_python_inc

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe;\n", "utf-8")
        compiler = new_compiler()
        customize_compiler(compiler)
        compiler.add_include_dir(get_python_inc())
        compiler.add_include_dir(get_python_inc(plat_specific=True))
        try:
            compiler.compile([str(source)], output_dir=folder)
        except Exception as error:
            raise CannotCompileError(f"no C compiler with Python's headers ({error})") from error


def engine_extensions() -> list[Extension]:
    """What mypyc makes of the engine's modules."""
    probe_compiler()
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        raise CannotCompileError(f"mypyc is missing ({error})") from error
    sources = sorted(str(path) for path in ENGINE.glob("*.py") if path.stem != "__init__")
    try:
        extensions = mypycify(sources, opt_level="3", debug_level="0", group_name=f"{PACKAGE}.native")
    except (Exception, SystemExit) as error:
        raise CannotCompileError(f"mypyc refused the modules ({error})") from error
    for extension in extensions:
        # One list may be shared by all extensions, so it is replaced and not changed.  Warnings of compilers
        # to come are no errors, and calls within the engine may be inlined.
        flags = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        if os.name == "posix":
            flags.append("-fno-semantic-interposition")
        extension.extra_compile_args = flags
    return list(extensions)


class BuildEngine(build_ext):
    """Builds all of the engine or none of it, and writes down which sources it was."""

    def run(self) -> None:
        try:
            super().run()
        except (Exception, SystemExit) as error:
            self.discard()
            self.extensions = []
            give_up(str(error))
            return
        in_place = self.inplace or getattr(self, "editable_mode", False)
        folder = ROOT / ENGINE if in_place else Path(self.build_lib, *PACKAGE.split("."))
        record_build(folder)

    def discard(self) -> None:
        """Half an engine must not be imported."""
        for folder in (ROOT / ENGINE, Path(self.build_lib, *PACKAGE.split("."))):
            remove_compiled(folder)


def record_build(folder: Path) -> None:
    rules = engine_package()
    path = folder / rules.BUILD_FILE
    try:
        builds = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        builds = {}
    builds[SUFFIX] = rules.source_hashes(ROOT / ENGINE)
    path.write_text(json.dumps(builds, indent=1, sort_keys=True) + "\n", "utf-8")


def remove_compiled(folder: Path) -> None:
    for path in folder.glob(f"*{SUFFIX}"):
        path.unlink()


def main() -> None:
    extensions: list[Extension] = []
    if not BUILDING & set(sys.argv):
        pass
    elif SWITCH == "0":
        sys.stderr.write("barnabas: the engine stays plain Python: BARNABAS_COMPILE=0\n")
        remove_compiled(ROOT / ENGINE)
    else:
        try:
            extensions = engine_extensions()
        except CannotCompileError as error:
            give_up(str(error))
            remove_compiled(ROOT / ENGINE)
    setup(
        ext_modules=extensions,
        cmdclass={"build_ext": BuildEngine},
        # The record of an earlier build in place belongs to no archive; a build of its own writes a new one.
        exclude_package_data={"": ["_build.json"], "barnabas": ["batch/engine/_build.json"]},
    )


main()
