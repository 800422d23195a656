"""Files and folders that are written whole or not at all, with the rights that the umask gives, and through no link.

New files and folders are made as `open` and `mkdir` make them, so that the umask holds; `tempfile` would make them for
their owner alone.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import CheckpointError, RunError, TransformulaError

PARTIAL = ".partial-"
"""How the name of a folder starts that is still being written. What a killed process left is removed by the next."""
HELD, REPLACED = ".held", "replaced"  # in such a folder: a file that its process has locked; what it replaces


REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space there"),
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.EROFS: "make it writable",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "give yourself the right to write there (chmod u+w)"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a part of this path is a file: take it away"),
}
"""What a person does where a disk refuses to be written."""

OF_SYSTEM = re.compile(r"\(os error (\d+)\)")  # how libraries written in Rust quote the system, such as safetensors
OF_TORCH = re.compile("PytorchStreamWriter|inline_container|iostream error|Parent directory")  # and how torch does


@contextmanager
def disk_errors(target: Path, again: str = "") -> Iterator[None]:
    """Turn what a disk refuses while `target`, a file or a folder, is written into one error that names it and says
    what to do; libraries have errors of their own for that. `again` says what to do then. Raises RunError."""
    try:
        yield
    except Exception as error:
        message = _disk_message(target, error)
        if message is None:
            raise
        raise RunError(message + (f"; {again}" if again else "")) from error


def _disk_message(target: Path, error: Exception) -> str | None:
    """What is said of an error; None for one that is not the disk's."""
    quoted = None if isinstance(error, TransformulaError) else OF_SYSTEM.search(str(error))
    number: int | None
    if isinstance(error, OSError) and error.strerror:
        number, reason, name = error.errno, error.strerror, error.filename
    elif quoted:
        number, reason, name = int(quoted[1]), os.strerror(int(quoted[1])), None
    elif isinstance(error, RuntimeError) and OF_TORCH.search(str(error)):
        number, reason, name = None, "the disk is full, or takes no file as large", None
    else:
        return None
    place = None if not isinstance(name, (str, os.PathLike)) else Path(name).absolute()
    whole = target.absolute()
    ours = place is None or whole in (place, *place.parents) or place in whole.parents or PARTIAL in str(place)
    within = "" if place is None or place == whole else f" ({place.name})"
    said = f"{target}: cannot be written: {reason.lower()}{within}" if ours else f"{place}: {reason.lower()}"
    remedy = REMEDIES.get(number or 0, "see that there is room, and the right to write")
    return f"{said}; {remedy}" + (", or name another folder" if ours else "")


class LateErrors:
    """A file for torch's writers, which a failed write kills with the whole process: what the disk refuses is kept, and
    raised when the file is closed.

        with LateErrors(path) as file:
            torch.export.save(program, file)
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, open(path, "wb")  # noqa: SIM115
        self._error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        if self._error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self._error = error
        return len(data)

    def flush(self) -> None:
        """All is flushed when the file is closed."""

    def __enter__(self) -> LateErrors:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._error = self._error or error
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror, str(self._path)) from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a machine that stops at any moment, finds the old one or all of the new one.

    The folder must exist. A link at `path` is replaced, not followed. Raises OSError; then nothing is left behind. What
    a process that was killed here left, the next that writes the same file takes over.
    """
    file = _temporary_file(path)
    temporary = Path(file.name)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if os.name != "nt":  # before its lock is given up; Windows has none, and renames no open file
                os.replace(temporary, path)
        if os.name == "nt":
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary_file(path: Path) -> BinaryIO:
    """An empty file beside `path` that no other process writes: `.NAME.part`, or another name where that is taken."""
    temporary = path.with_name(f".{path.name}.part")
    with suppress(OSError), ExitStack() as opened:  # a link, a folder, or another person's
        file = opened.enter_context(open(temporary, "r+b", opener=_open_no_link))
        if _is_ours(file, temporary):
            file.truncate()
            opened.pop_all()  # it stays open
            return file
    return open(path.with_name(f".{path.name}.{secrets.token_hex(4)}.part"), "xb")


def is_temporary(entry: str, *names: str) -> bool:
    """Whether an entry of a folder is what a process leaves that is killed while it writes one of these files."""
    return any(re.fullmatch(rf"\.{re.escape(name)}(\.[0-9a-f]{{8}})?\.part", entry) for name in names)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _is_ours(file: BinaryIO, path: Path) -> bool:
    """Whether this process alone holds the file at `path` by a lock. Between its opening and its locking another may
    have renamed it; a second name, a hard link, may be that of a file to keep."""
    if not flocked(file.fileno(), otherwise=False):
        return False
    about = os.fstat(file.fileno())
    return about.st_nlink == 1 and path.exists() and os.path.samestat(about, os.lstat(path))


def flocked(handle: int, shared: bool = False, otherwise: bool = True) -> bool:
    """Lock an open file; False where another process holds it, and `otherwise` where there are no locks: on Windows and
    some file systems."""
    try:
        import fcntl

        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return otherwise
    return True


def new_folder(parent: Path, prefix: str) -> Path:
    """An empty folder in `parent` whose name begins with `prefix` and is not taken."""
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(4)}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to fill that becomes `target` when the block ends, replacing what stood there, and vanishes if it fails.

        with whole_folder(path) as folder:
            (folder / "a.txt").write_text("...")

    Every file is synced before the rename. Where `target` exists, it is set aside for the moment between two renames;
    if the process is killed right there, the next one that writes `target` puts it back, and removes what it left. A
    block that removes the folder it was given leaves what stood at `target`. The working directory and a mounted disk
    stay where they are: there the files are replaced one by one. Raises CheckpointError where `target` is a link.
    """
    if target.is_symlink():
        what = f"{target}: is a link to {os.path.realpath(target)}; nothing is written through a link"
        raise CheckpointError(f"{what}. Name the folder itself, or put a folder in the place of the link")
    target = target.absolute()
    stays = target.is_dir() and (target.samefile(Path.cwd()) or os.path.ismount(target))
    before = [path for path in target.rglob("*") if not path.is_dir()] if stays else []
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target)
    place = new_folder(target if stays else target.parent, f"{PARTIAL}{target.name}-")
    lock = os.open(place / HELD, os.O_CREAT | os.O_RDWR)
    flocked(lock)  # as long as this process lives
    try:
        folder = place / "new"
        folder.mkdir()
        yield folder
        if not folder.exists():
            return
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                follow_umask(path, folder)
            sync(path)
        sync(folder)
        if stays:
            _replace_each(folder, target, before)
            return
        if target.exists():
            os.rename(target, place / REPLACED)
        os.rename(folder, target)
        sync(target.parent)
    finally:
        put_back(place, target)
        os.close(lock)
        shutil.rmtree(place, ignore_errors=True)


def _replace_each(folder: Path, target: Path, before: Sequence[Path]) -> None:
    """Move the files of a folder into another, one by one, and remove those of `before` that none has replaced."""
    moved = set()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        moved.add(place := target / path.relative_to(folder))
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, place)
    for path in before:
        if path not in moved:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files
                if path.parent != target:
                    path.parent.rmdir()
    sync(target)


def follow_umask(path: Path, folder: Path) -> None:
    """Give a file that a library made for its owner alone the rights that `open` would have given it.

    `folder` is one that this program made: the umask is read off its rights, since asking for it would change it.
    """
    path.chmod(folder.stat().st_mode & 0o666)


def remove_partial(parent: Path) -> None:
    """Remove what processes that were killed left half written in `parent`, or put back what they were replacing."""
    for left in parent.glob(f"{PARTIAL}*"):
        if not left.is_symlink():  # which is none of ours
            put_back(left, parent / left.name.removeprefix(PARTIAL).rsplit("-", 1)[0])
            shutil.rmtree(left, ignore_errors=True)


def put_back(place: Path, target: Path) -> None:
    """Put what was set aside in an unfinished folder where it was, if nothing stands there."""
    if (place / REPLACED).is_dir() and not target.exists():
        os.rename(place / REPLACED, target)


def remove_abandoned(target: Path) -> None:
    """Remove what processes that were killed while they wrote the folder `target` left beside it, or in it, and put
    back what they were replacing. What a process still writes is locked, and stays."""
    target = target.absolute()
    for parent in (target.parent, target):
        for left in parent.glob(f"{PARTIAL}{glob.escape(target.name)}-????????"):
            if not left.is_symlink() and left.is_dir() and _abandoned(left):
                with suppress(OSError):  # another process does the same
                    put_back(left, target)
                    shutil.rmtree(left)


def _abandoned(place: Path) -> bool:
    """Whether the process that made an unfinished folder is gone, as its lock says, and nothing of others is in it."""
    if not {path.name for path in place.iterdir()} <= {HELD, "new", REPLACED}:
        return False
    try:
        handle = os.open(place / HELD, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return flocked(handle, otherwise=False)
    finally:
        os.close(handle)


def bytes_in(folder: Path) -> int:
    """Bytes of all files in a folder and below, but for those that another process removes meanwhile; 0 for none."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.stat(os.path.join(place, name)).st_size
    return size


def check_inside(path: Path, folder: Path) -> None:
    """Raise CheckpointError if `path`, a place in `folder`, leads out of it by a link: a folder may come from a
    stranger. The folder itself may be reached by a link, since its user named it."""
    home, place = os.path.realpath(folder), folder
    for part in path.relative_to(folder).parts:
        place = place / part
        target = os.path.realpath(place)
        if place.is_symlink() and not Path(target).is_relative_to(home):
            what = f"{place}: is a link to {target}, outside {folder}; nothing is written or deleted through it"
            raise CheckpointError(f"{what}. Put what it leads to in its place, or take it away")


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():  # some file systems cannot do it for folders
            raise
    finally:
        os.close(handle)
