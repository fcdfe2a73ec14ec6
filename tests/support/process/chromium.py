"""Debian's Chromium, driven by selenium."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import WebDriverException


class NoBrowser(Exception):
    """There is none, or it does not start; the text says why."""


def start_chromium(home: Path) -> Any:
    """Return the driver of a new browser.  home: its profile.  Raises: NoBrowser."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        raise NoBrowser("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    # Tests may run as root and in small containers: without a sandbox, without /dev/shm.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={home}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    except WebDriverException as error:
        raise NoBrowser(f"Chromium does not start here: {error.msg}") from None
