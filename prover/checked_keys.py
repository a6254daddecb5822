"""The keys whose points were all found in the subgroup of order r, by digest: looked at once, and never again."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


class CheckedKeys:
    """Digests in a folder, one empty file each.

    Args:
        folder: Of the daemon alone: who can write there can say that a key was checked.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __contains__(self, sha256: str) -> bool:
        return (self._folder / sha256).is_file()

    def add(self, sha256: str) -> None:
        """Remember a key. Where that cannot be written it is checked again the next time, and the log says so."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._folder / sha256, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._folder / sha256, error.strerror)
