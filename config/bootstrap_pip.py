"""Fetch a pinned pip wheel as pip would: same index, same proxy, same certificates [stack]."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

DEFAULT_INDEX = "https://pypi.org/simple"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
PAGE_BYTES_MAX = 16 * 1024 * 1024
WHEEL_BYTES_MAX = 16 * 1024 * 1024


class Link(NamedTuple):
    url: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipConfig:
    """The part of pip's configuration that decides where packages come from."""

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    cert: str | None
    proxy: str | None
    timeout_s: float


def config_files() -> Iterator[Path]:
    """Configuration files of pip, weakest first."""
    for folder in os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    home = Path("~").expanduser()
    yield home / ".pip" / "pip.conf"
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    if named := os.environ.get("PIP_CONFIG_FILE"):
        yield Path(named)


def read_config() -> PipConfig:
    values: dict[str, str] = {}
    for path in config_files():
        parser = configparser.RawConfigParser()
        parser.read(path, encoding="utf-8")
        for section in ("global", "install"):
            if parser.has_section(section):
                values.update((key.replace("_", "-"), text) for key, text in parser.items(section))
    for name, text in os.environ.items():
        if name.startswith("PIP_") and text:
            values[name.removeprefix("PIP_").lower().replace("_", "-")] = text
    indexes = [values.get("index-url") or DEFAULT_INDEX, *values.get("extra-index-url", "").split()]
    is_offline = values.get("no-index", "").lower() in {"1", "true", "yes", "on"}
    return PipConfig(
        indexes=() if is_offline else tuple(indexes),
        find_links=tuple(values.get("find-links", "").split()),
        cert=values.get("cert"),
        proxy=values.get("proxy"),
        timeout_s=float(values.get("timeout") or values.get("default-timeout") or 60),
    )


class Anchors(HTMLParser):
    """Collects the href of every link of a simple index page, and its base if it names one."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.hrefs.append(href)
        elif tag == "base" and href:
            self.base = href


def parse_page(url: str, content_type: str, body: bytes) -> list[Link]:
    """Links of an index page, JSON or HTML; mirrors give relative ones, so they are joined."""
    if content_type.partition(";")[0].strip() == SIMPLE_JSON:
        return [
            Link(urljoin(url, file["url"]), file.get("hashes", {}).get("sha256", ""))
            for file in json.loads(body)["files"]
        ]
    page = Anchors()
    page.feed(body.decode("utf-8", "replace"))
    links = []
    for href in page.hrefs:
        target, fragment = urldefrag(urljoin(urljoin(url, page.base), href))
        algorithm, _, digest = fragment.partition("=")
        links.append(Link(target, digest if algorithm == "sha256" else ""))
    return links


def without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Fetcher:
    def __init__(self, config: PipConfig) -> None:
        context = ssl.create_default_context(cafile=config.cert)
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
        if config.proxy:
            proxies = {"http": config.proxy, "https": config.proxy}
            handlers.append(urllib.request.ProxyHandler(proxies))
        self.opener = urllib.request.build_opener(*handlers)
        self.timeout_s = config.timeout_s
        self.logins: dict[str, str] = {}  # "user:password" of each host that was named with one

    def get(self, url: str, bytes_max: int) -> tuple[str, str, bytes]:
        """Final address, content type and body of a URL, at most bytes_max of it."""
        parts = urlsplit(url)
        headers = {"Accept": f"{SIMPLE_JSON}, text/html;q=0.5, */*;q=0.1", "User-Agent": "veen"}
        url = without_login(url)
        host = urlsplit(url).netloc
        if parts.username is not None:
            self.logins[host] = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the user's own index
        if login := self.logins.get(host):
            # Unredirected: a redirect to another host must not carry the password there.
            basic = b64encode(login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {basic}")
        with self.opener.open(request, timeout=self.timeout_s) as answer:
            body = answer.read(bytes_max + 1)
            if len(body) > bytes_max:
                raise OSError(f"{url} is larger than {bytes_max} bytes")
            return answer.url or url, answer.headers.get("Content-Type", "text/html"), body


def local_wheels(folder: Path) -> list[Link]:
    return [Link(path.resolve().as_uri(), "") for path in sorted(folder.glob("pip-*.whl"))]


def page_address(index: str) -> str:
    """Address of pip's page in an index; a file: index has no server to find index.html."""
    address = index.rstrip("/") + "/pip/"
    return address + "index.html" if address.startswith("file:") else address


def candidate_links(config: PipConfig, fetcher: Fetcher, failures: list[str]) -> Iterator[Link]:
    pages = [page_address(index) for index in config.indexes]
    for place in config.find_links:
        folder = Path(place.removeprefix("file://")).expanduser()
        if folder.is_dir():
            yield from local_wheels(folder)
        elif "://" in place:
            pages.append(place)
    for page in pages:
        try:
            yield from parse_page(*fetcher.get(page, PAGE_BYTES_MAX))
        except (OSError, ValueError, KeyError) as error:
            failures.append(f"{without_login(page)}: {error}")


def pinned(lock: Path) -> dict[str, str]:
    """File name of each accepted wheel and its SHA-256."""
    pins = re.findall(
        r"^pip==(\S+) --hash=sha256:([0-9a-f]{64})$", lock.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {f"pip-{version}-py3-none-any.whl": digest for version, digest in pins}


def fetch_pip(lock: Path, folder: Path) -> Path:
    """Download one pinned wheel into folder; only our own hash decides whether it is taken."""
    wanted = pinned(lock)
    config = read_config()
    fetcher = Fetcher(config)
    failures: list[str] = []
    for url, claimed in candidate_links(config, fetcher, failures):
        name = unquote(url.rpartition("/")[2])
        if name not in wanted or claimed not in {"", wanted[name]}:
            continue
        try:
            _, _, body = fetcher.get(url, WHEEL_BYTES_MAX)
        except OSError as error:
            failures.append(f"{without_login(url)}: {error}")
            continue
        if hashlib.sha256(body).hexdigest() != wanted[name]:
            failures.append(f"{without_login(url)}: SHA-256 is not the pinned one")
            continue
        wheel = folder / name
        wheel.write_bytes(body)
        return wheel
    tried = "; ".join(failures) or "no index has it"
    raise OSError(f"cannot fetch {' or '.join(wanted)}: {tried}")
