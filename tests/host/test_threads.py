"""Worker threads: how many work at once, in which order, and what becomes of errors and cancelled callers."""

from __future__ import annotations

import threading
import time

import anyio
import anyio.lowlevel
import pytest

from honeybadger_host.threads import Threads


async def test_as_many_work_at_once_as_there_are_threads() -> None:
    threads, both, at_work, most = Threads(2), threading.Barrier(2), set[int](), list[int]()

    def work(number: int) -> None:
        at_work.add(number)
        both.wait(10)
        most.append(len(at_work))
        both.wait(10)
        at_work.remove(number)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(threads.run, work, number)
    assert most == [2] * 6


async def test_work_waits_for_the_thread_in_its_order() -> None:
    threads, done = Threads(1), list[int]()
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(threads.run, done.append, number)
    assert done == [*range(6)]


async def test_an_error_is_raised_in_the_caller_and_the_thread_works_on() -> None:
    threads = Threads(1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 1, 0)
    assert await threads.run(divmod, 7, 2) == (3, 1)


async def test_a_cancelled_caller_waits_for_the_end_of_its_work() -> None:
    ended = list[str]()

    def work() -> None:
        time.sleep(0.05)
        ended.append("work")

    with anyio.move_on_after(0.01):
        await Threads(1).run(work)
        await anyio.lowlevel.checkpoint()
        ended.append("caller")
    assert ended == ["work"]
