"""Times on pages: ISO and UTC, like everywhere else in the product [experience 1.6]."""

from __future__ import annotations

from typing import Final

DATE_FORMAT: Final = "Y-m-d"
TIME_FORMAT: Final = "H:i:s"
DATETIME_FORMAT: Final = "Y-m-d H:i:s"
SHORT_DATE_FORMAT: Final = DATE_FORMAT
SHORT_DATETIME_FORMAT: Final = DATETIME_FORMAT
