"""The two files of the gateway, read again when they are replaced [architecture, Processes]."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from hub import keystore
from hub.errors import VeenError
from recorder.gateway.config import GatewayConfig, GatewayKeys

logger = logging.getLogger("gateway")

CONFIG: Final = Path("gateway") / "config.json"
KEYS: Final = Path("secrets") / "gateway.keys"
_Sight = tuple[int, int, int] | None


class Watched:
    """The newest good state; a broken or older file changes nothing but `flaw`."""

    def __init__(self, state_dir: Path) -> None:
        self._paths = state_dir / CONFIG, state_dir / KEYS
        self._seen: tuple[_Sight, _Sight] | None = None
        self.config: GatewayConfig | None = None
        self.keys = GatewayKeys(keys={})
        self.flaw: str | None = "not configured yet"

    def look(self) -> bool:
        """Read the files if they were replaced; whether a new state is in force."""
        seen = _sight(self._paths[0]), _sight(self._paths[1])
        if seen == self._seen:
            return False
        self._seen = seen
        if None in seen:
            return False
        config_path, keys_path = self._paths
        try:
            config = GatewayConfig.parse(keystore.read_private(config_path))
            # The keys are written first, so those of this configuration are there by now.
            keys = GatewayKeys.parse(keystore.read_private(keys_path))
        except VeenError as flaw:
            self.flaw = f"{flaw.code}: {flaw.detail}"
            logger.warning("config.refused code=%s", flaw.code)
            return False
        if self.config is not None and config.serial < self.config.serial:
            self.flaw = f"serial {config.serial} is older than {self.config.serial}"
            logger.warning("config.refused reason=serial")
            return False
        self.config, self.keys, self.flaw = config, keys, None
        logger.info("config.read serial=%d producers=%d", config.serial, len(config.producers))
        return True


def _sight(path: Path) -> _Sight:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
