"""Tab completes in bash, zsh and fish themselves, with the names of the cluster."""

from __future__ import annotations

import shutil

import pytest

from tools.terminal import Terminal, terminal

SHELLS = {
    "bash": ("bash --norc", "source <(barnabas completion bash)"),
    "zsh": ("zsh -f", "autoload -Uz compinit && compinit -u; source <(barnabas completion zsh)"),
    "fish": ("fish --no-config", "barnabas completion fish | source"),
}
TYPED = {
    "barnabas consume wareh": "barnabas consume warehouse",
    "barnabas topic sh": "barnabas topic show",
    "barnabas produce warehouse --comp": "barnabas produce warehouse --compression",
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes(shell: str) -> None:
    if shutil.which("tmux") is None or shutil.which(shell) is None:
        pytest.skip(f"tmux or {shell} is not installed")
    program, load = SHELLS[shell]
    with terminal() as window:
        window.run("barnabas topic create warehouse")
        window.open(program)
        try:
            window.press(load, "Enter")
            for typed, completed in TYPED.items():
                _completes(window, typed, completed)
        finally:
            window.close()


def _completes(window: Terminal, typed: str, completed: str) -> None:
    window.press(typed, "Tab")
    window.await_text(completed)
    window.press("", "C-u")
