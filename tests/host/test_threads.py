"""The threads of the pipeline."""

import threading

import anyio
import pytest

from honeybadger_host.threads import Threads


async def test_results_and_errors_reach_the_caller() -> None:
    threads = Threads(2)
    assert await threads.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(next, iter(()))


async def test_a_cancelled_caller_waits_and_others_come_after() -> None:
    threads, order, may_end = Threads(1), list[str](), threading.Event()

    def first() -> None:
        may_end.wait()
        order.append("first")

    async with anyio.create_task_group() as outer:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(threads.run, first)
                await anyio.wait_all_tasks_blocked()
                outer.start_soon(threads.run, order.append, "second")
                scope.cancel()
                may_end.set()
        assert order[0] == "first"
    assert order == ["first", "second"]


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
