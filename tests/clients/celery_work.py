"""Celery with Redis as broker and result backend: tasks, retries, groups, chains, chords, countdowns, rate limits, priorities, revokes.
Prints `ok NAME` or `FAIL NAME: reason`."""
import os
import signal
import subprocess
import sys
import time
import traceback

from celery import Celery, chain, chord, group

URL = "redis://127.0.0.1:6379/"
app = Celery("celery_work", broker=URL + "0", backend=URL + "1")
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=2, broker_connection_retry_on_startup=True, result_expires=600, broker_transport_options={"priority_steps": list(range(3)), "visibility_timeout": 5},
                task_track_started=True)


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def big(size):
    return "x" * size


@app.task
def fail():
    raise ValueError("on purpose")


@app.task(bind=True, max_retries=3)
def flaky(self, times):
    if self.request.retries < times:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def slow(seconds):
    time.sleep(seconds)
    return seconds


@app.task(rate_limit="20/s")
def limited(n):
    return n


def many():
    results = [add.delay(n, n) for n in range(400)]
    assert [each.get(timeout=60) for each in results] == [2 * n for n in range(400)]


def a_group():
    assert group(add.s(n, 1) for n in range(60))().get(timeout=60) == [n + 1 for n in range(60)]


def a_chain():
    assert chain(add.s(1, 2), *[add.s(n) for n in range(20)])().get(timeout=60) == 3 + sum(range(20))


def a_chord():
    for _ in range(5):
        assert chord((add.s(n, n) for n in range(30)), total.s())().get(timeout=60) == sum(2 * n for n in range(30))


def a_chord_of_chains():
    work = chord([chain(add.s(n, 1), add.s(1)) for n in range(10)], total.s())
    assert work().get(timeout=60) == sum(n + 2 for n in range(10))


def a_failing_chord():
    try:
        chord([add.s(1, 1), fail.s()], total.s())().get(timeout=60)
    except Exception as error:
        assert "on purpose" in str(error), error
    else:
        raise AssertionError("no error")


def failures():
    try:
        fail.delay().get(timeout=30)
    except ValueError as error:
        assert str(error) == "on purpose"
    else:
        raise AssertionError("no error")


def retries():
    assert [each.get(timeout=60) for each in [flaky.delay(n) for n in (0, 1, 2, 3)]] == [0, 1, 2, 3]


def countdowns():
    started = time.monotonic()
    results = [add.apply_async((n, 0), countdown=1 + n * 0.1) for n in range(10)]
    assert [each.get(timeout=60) for each in results] == list(range(10))
    assert time.monotonic() - started > 1


def large_results():
    assert len(big.delay(2000000).get(timeout=60)) == 2000000


def revokes():
    result = add.apply_async((1, 1), countdown=3)
    result.revoke()
    time.sleep(4)
    assert result.state in ("REVOKED", "PENDING"), result.state


def priorities():
    results = [add.apply_async((n, 0), priority=n % 3) for n in range(60)]
    assert [each.get(timeout=60) for each in results] == list(range(60))


def limits():
    assert [each.get(timeout=60) for each in [limited.delay(n) for n in range(40)]] == list(range(40))


def control():
    answer = app.control.ping(timeout=3)
    assert len(answer) == 1, answer
    assert app.control.inspect(timeout=3).active_queues()


def a_killed_worker():
    """A task that was not acknowledged is delivered again after the visibility timeout."""
    global worker
    result = slow.delay(3)
    time.sleep(1)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    worker = start_worker()
    assert result.get(timeout=60) == 3


def results_are_forgotten():
    result = add.delay(1, 1)
    assert result.get(timeout=30) == 2
    result.forget()
    assert app.AsyncResult(result.id).state == "PENDING"


def purge():
    app.control.cancel_consumer("celery")
    app.control.add_consumer("celery")
    assert add.delay(1, 2).get(timeout=30) == 3


def start_worker():
    return subprocess.Popen([sys.executable, "-m", "celery", "-A", "celery_work", "worker", "-c", "4", "--loglevel", "WARNING", "--without-mingle"],
                            stdin=subprocess.DEVNULL, start_new_session=True, env=dict(os.environ, C_FORCE_ROOT="1"), cwd=os.path.dirname(os.path.abspath(__file__)))


worker = None


def main():
    global worker
    sys.modules["celery_work"] = sys.modules["__main__"]
    worker = start_worker()
    try:
        for test in (many, a_group, a_chain, a_chord, a_chord_of_chains, a_failing_chord, failures, retries, countdowns, large_results, revokes, priorities, limits, control, results_are_forgotten, purge, a_killed_worker):
            try:
                test()
                print("ok " + test.__name__, flush=True)
            except Exception as error:
                traceback.print_exc()
                print("FAIL %s: %s: %s" % (test.__name__, type(error).__name__, str(error).replace("\n", " ")[:300]), flush=True)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    print("ok (end)", flush=True)


if __name__ == "__main__":
    main()
