"""Search every byte below a home for forgotten texts.

It runs as a separate process, which reads the texts from its standard input. If the host itself opened and closed the
files of its databases, it would lose its locks on them (SQLite, "How to corrupt", 2.2). It also answers requests
meanwhile.
"""

import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import orjson

from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.safe_files import connect_to_read, names_in, printable
from honeybadger_host.text.phrases import Phrases, folded

_CHUNK_BYTES = 1 << 18  # read at once; the end of a chunk is searched again with the next one
_ARCHIVES = (".tar.gz", ".tgz", ".zip", ".gz", ".xz", ".zst", ".7z")


class Residue(NamedTuple):
    """A place where a forgotten text is left.

    Args:
        file: relative to the home folder.
        form: how the text is written there, for people.
    """

    file: str
    form: str


async def scan_apart(home: Path, texts: Sequence[str], without: Collection[str]) -> list[Residue]:
    """Return the places below a home where texts are left, which another process finds. Raises WorldFailed."""
    asked = orjson.dumps({"home": str(home), "texts": list(texts), "without": list(without)})
    try:
        done = await anyio.run_process([sys.executable, "-m", __name__], input=asked, stderr=None)
    except (OSError, subprocess.CalledProcessError) as error:
        raise WorldFailed(f"what is left below {home} cannot be looked for: {error}") from error
    return [Residue(**one) for one in orjson.loads(done.stdout)]


def main() -> None:
    """Run the scan that is described on the standard input; write its findings to the standard output."""
    asked = orjson.loads(sys.stdin.buffer.read())
    left = scan(Path(asked["home"]), Phrases(asked["texts"]), asked["without"])
    sys.stdout.buffer.write(orjson.dumps([one._asdict() for one in left]))


def scan(home: Path, phrases: Phrases, without: Collection[str]) -> list[Residue]:
    """Return the places below a home where texts are left, and the files that cannot be read.

    Args:
        without: files to skip.
    """
    left: list[Residue] = []
    for file in _every_path(home):
        if file in without or (home / file).is_symlink() or not (home / file).is_file():
            continue
        if phrases.finds(file):
            left.append(Residue(printable(file), "in its name"))
        try:
            form = _form_in(home / file, phrases)
        except FileNotFoundError:
            continue
        except OSError as error:
            form = f"not read: {error.strerror}"
        if form is None and file.endswith(".db"):
            form = _in_tables(home / file, phrases)
        if form is not None:
            left.append(Residue(printable(file), form))
    return left


def backups_in(home: Path) -> list[str]:
    """Return the archives, git repositories and links below a home, which are not searched."""
    found: set[str] = set()
    for file in _every_path(home):
        before, git, _ = f"/{file}".partition("/.git/")
        if git:
            found.add(f"{before}{git}".removeprefix("/"))
        elif file.endswith(_ARCHIVES) or (file.startswith("groups/") and (home / file).is_symlink()):
            found.add(file)
    return sorted(map(printable, found))


def _every_path(home: Path) -> Iterator[str]:
    """Yield all files and links below a home, including groups whose folders are links; no other link is followed.

    Folders for which `_is_packed` is true are skipped.
    """
    tops = [Path(), Path("groups"), *(Path("groups") / name for name in names_in(home / "groups"))]
    for top in tops:
        if top != Path() and not (home / top).is_symlink():
            continue
        for place, folders, names in os.walk(home / top):
            links = [name for name in folders if os.path.islink(f"{place}/{name}")]
            folders[:] = sorted(name for name in folders if not _is_packed(home, Path(place) / name))
            paths = [Path(place, name).relative_to(home) for name in sorted((*names, *links))]
            yield from (str(path) for path in paths if path not in tops)


def _is_packed(home: Path, folder: Path) -> bool:
    """Return whether a folder is git's object store, or a Python environment outside of the host's own folders."""
    is_elsewhere = folder.relative_to(home).parts[0] not in ("groups", "data", "config")
    return folder.match(".git/objects") or (is_elsewhere and (folder / "pyvenv.cfg").is_file())


def _form_in(path: Path, phrases: Phrases) -> str | None:
    """Return how a forgotten text is written in a file, or None if the file has none. Raises OSError."""
    with open(path, "rb") as file:
        before = b""
        while chunk := file.read(max(_CHUNK_BYTES, phrases.longest)):
            data = before + chunk
            found = next(phrases.found_in(folded(data.decode("utf-8", "surrogateescape"))), None)
            if found is not None:
                return "as it was said" if found.encode() in data.lower() else "escaped, or written in another way"
            if phrases.finds_wide(data):
                return "in UTF-16"
            before = data[-phrases.longest :]
    return None


def _in_tables(path: Path, phrases: Phrases) -> str | None:
    """Return the table of a database that has a text, or None if none has. Pages may split or compress a text."""
    try:
        with closing(connect_to_read(path)) as connection:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608  the database's own names
                    if any(phrases.finds(_text_of(value)) for value in row if isinstance(value, str | bytes)):
                        return f"in its table {table}"
    except sqlite3.Error as error:
        return f"not read: {error}"
    return None


def _text_of(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    if value[:1] == b"\x78":
        with suppress(zlib.error):
            value = zlib.decompress(value)
    return value.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main()
