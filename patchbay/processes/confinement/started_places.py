"""Folders that hold programs which the user's shell, desktop or login, or the hub, starts.

A program that may change one of them runs outside its confinement soon: a file there starts with all rights of the
user. So no line is proposed for them, nor for a folder above one; the operator may still write it.

Sources: systemd.unit(5), the XDG base directory and desktop entry specifications, and the documents of the installers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from patchbay.processes.confinement.private_places import find_home

STARTED_PLACES = (
    *("bin", ".bin", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/pipx", ".rye"),
    *(".pyenv", ".conda", ".pixi", "miniconda3", "anaconda3", "miniforge3", "mambaforge", ".cache/uv"),
    *(".npm", ".npm-global", ".npm-packages", ".nvm", ".nodenv", ".fnm", ".local/share/fnm", ".volta", ".yarn"),
    *(".local/share/pnpm", ".bun", ".deno", "node_modules", ".node_modules", ".node_libraries"),
    *(".cargo", ".rustup", "go/bin", ".rbenv", ".rvm", ".gem", ".local/share/gem", ".sdkman", ".jenv", "perl5"),
    *(".opam", ".cabal", ".ghcup", ".asdf", ".local/share/mise", ".linuxbrew", ".nix-profile", ".local/state/nix"),
    *(".oh-my-zsh", ".oh-my-bash", ".zsh", ".zplug", ".zinit", ".local/share/zinit", ".zprezto", ".antigen"),
    *(".bash_it", ".bashrc.d", ".fzf", ".local/share/bash-completion", ".tmux", ".vim", ".local/share/nvim"),
    *(".emacs.d", ".local/share/systemd", ".local/share/applications", ".local/share/dbus-1", ".local/share/flatpak"),
    *(".local/share/gnome-shell", ".local/share/plasma", ".local/share/kio", ".local/share/nautilus", ".ipython"),
    *("Library/LaunchAgents", "Library/Python"),
)
"""Folders in the home folder."""


def find_started_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders whose programs start with all rights of the user, without symbolic links.

    They are `STARTED_PLACES`, the folders in the variable PATH of `environ` (relative ones are left out), and those of
    the Python and of the package that run the hub. `environ` has HOME too. The folders need not exist.
    """
    home = find_home(environ)
    searched = (one for one in environ.get("PATH", "").split(os.pathsep) if one.startswith("/"))
    own = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2])
    found = (*(home / one for one in STARTED_PLACES), *map(Path, searched), *own)
    return tuple(dict.fromkeys(Path(os.path.realpath(one)) for one in found))
