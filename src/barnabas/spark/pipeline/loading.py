"""Loading a pipeline: `load("orders.py")`, `load("orders.toml")`, `load("package.module")`.

Errors are reported in one line with their position.  TOML belongs in `toml_file`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from barnabas.spark.pipeline.definition import Pipeline, PipelineError

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def load(path: str | Path) -> Pipeline:
    """Load and validate the pipeline of a file or of an installed module."""
    file = Path(path)
    if file.suffix not in (".py", ".toml") and MODULE.fullmatch(str(path)):
        pipeline = _of_module(_imported(str(path)), str(path))
    elif not file.is_file():
        raise PipelineError(f"{path}: there is no such file; give a .py or .toml file, or a module's name")
    elif file.suffix == ".toml":
        from barnabas.spark.pipeline.toml_file import pipeline_of

        pipeline = pipeline_of(file)
    elif file.suffix == ".py":
        pipeline = _of_module(run_file(file), str(path))
    else:
        raise PipelineError(f"{path}: a pipeline is a .py or a .toml file, not {file.suffix or 'this'}")
    try:
        pipeline.check()
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from error
    return pipeline


def _of_module(module: ModuleType, path: str) -> Pipeline:
    pipeline = getattr(module, "pipeline", None)
    if isinstance(pipeline, Pipeline):
        return pipeline
    others = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
    if len(others) == 1:
        return next(iter(others.values()))
    raise PipelineError(
        f"{path}: it defines {'no' if not others else len(others)} pipelines; "
        'it must have one: pipeline = Pipeline("name", ...)'
    )


def run_file(path: Path) -> ModuleType:
    """Run a file as a module.

    It is not kept in sys.modules: Spark then pickles its functions by value, not by the name of a module that
    worker processes could not import.
    """
    name = re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(f"barnabas_pipeline_{name}", path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path}: this is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise PipelineError(f"{error.filename or path}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise PipelineError(f"{_place(error, str(path), str(spec.origin))}: {_said(error)}") from error
    finally:
        sys.modules.pop(spec.name, None)
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise PipelineError(f"{name}: there is no such module; a file is given as {name}.py") from error
        raise PipelineError(f"{_place_in_module(error, name)}: {_said(error)}") from error
    except (Exception, SystemExit) as error:
        raise PipelineError(f"{_place_in_module(error, name)}: {_said(error)}") from error


def _place(error: BaseException, path: str, file: str) -> str:
    """Return the line of this file that caused an error; `path` is the user's name of the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{path}:{lines[-1]}" if lines else path


def _place_in_module(error: BaseException, name: str) -> str:
    """Return the line of the module's own file; it may be a package."""
    parts = tuple(name.split("."))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        if module.parts[-len(parts) :] == parts:
            return f"{path}:{frame.lineno}"
    return name


def _said(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        code = f": {error}" if str(error) else ""
        return (
            f"it ends the program (SystemExit{code}); code for running the file "
            'directly belongs below: if __name__ == "__main__":'
        )
    return str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
