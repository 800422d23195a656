"""A run that hangs: where no step ends for too long, the stack of every thread is printed, and the process ends.

A thread of Python watches. Where that one cannot run, since a library holds the interpreter's lock, a watch in C
(faulthandler's) does the same a little later, though with the status 1.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Callable

HUNG = 124  # exit status, as that of coreutils' timeout
STDERR = 2  # written to directly: whoever hangs may hold the lock of sys.stderr
C_WATCH_FACTOR = 1.5  # the watch in C waits so many times as long
LOOKS_PER_TIMEOUT = 20  # looks of the thread in the time that is given


class Watchdog:
    """Ends the process where `beat` is not called for so many seconds. With None it does nothing.

    message  says what hangs; called at the end
    """

    def __init__(self, seconds: float | None, message: Callable[[], str]) -> None:
        self.seconds, self.message = seconds, message
        self._beaten = self._armed = 0.0
        self._done, self._fired = threading.Event(), threading.Event()

    def __enter__(self) -> Watchdog:
        if self.seconds:
            self._done.clear()
            self.beat()
            threading.Thread(target=self._watch, args=(self.seconds,), name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.seconds:
            if self._fired.is_set():  # the process ends now; what fails as other ranks end does not change its status
                threading.Event().wait()
            self._done.set()
            faulthandler.cancel_dump_traceback_later()

    def beat(self) -> None:
        """Something has come to its end: a step, a part of an evaluation, a checkpoint."""
        if not self.seconds:
            return
        self._beaten = time.monotonic()
        if not self._armed or self._beaten - self._armed > self.seconds / LOOKS_PER_TIMEOUT:  # arming starts a thread
            self._armed = self._beaten
            faulthandler.dump_traceback_later(C_WATCH_FACTOR * self.seconds, exit=True, file=STDERR)

    def _watch(self, seconds: float) -> None:
        looked = time.monotonic()
        while not self._done.wait(seconds / LOOKS_PER_TIMEOUT):
            now = time.monotonic()
            if now - looked > seconds / 2:  # the process was stopped for a while (SIGSTOP), not this thread's neighbor
                self._beaten = now
            looked = now
            if now - self._beaten > seconds:
                self._fired.set()
                os.write(STDERR, f"error: {self.message()}\n".encode("utf-8", "replace"))
                faulthandler.dump_traceback(file=STDERR, all_threads=True)
                time.sleep(2 * seconds / LOOKS_PER_TIMEOUT)  # other ranks, which wait for it, say so before it is gone
                os._exit(HUNG)
