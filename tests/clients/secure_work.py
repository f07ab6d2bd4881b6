"""redis-py over TLS, with and without client certificates, as users with few permissions: pools, reconnecting after changes of the users,
pub/sub, RESP3, a job queue in the style of Sidekiq, and what a monitoring program reads. Prints `ok NAME` or `FAIL NAME: reason`."""
import asyncio
import os
import threading
import time
import traceback

import redis
import redis.asyncio
from redis.backoff import ConstantBackoff
from redis.retry import Retry

FOLDER, PORT = os.environ["KELVIN_TLS"], int(os.environ["KELVIN_TLS_PORT"])
RULES = ["reset", "on", ">secret", "~app:*", "&app:*", "+@read", "+@write", "-@dangerous"]
TALKING_RULES = RULES + ["+@pubsub", "+@connection"]
QUEUE_RULES = ["reset", "on", ">secret", "~queue*", "~stat:*", "~retry", "+@all", "-@dangerous", "-@admin", "+info"]
EXPORTER_RULES = ["reset", "on", ">secret", "-@all", "+@connection", "+memory", "-readonly", "+strlen", "+config|get", "+xinfo", "+pfcount", "-quit", "+zcard", "+type",
                  "+xlen", "-readwrite", "-command", "+client", "-wait", "+scard", "+llen", "+hlen", "+get", "+eval", "+slowlog", "+cluster|info", "-hello", "-echo",
                  "+info", "+latency", "+scan", "-reset", "-auth", "-asking", "~*"]


def path(name):
    return os.path.join(FOLDER, name)


def options(user="app", certificate=True, **more):
    found = {"host": "127.0.0.1", "port": PORT, "ssl": True, "ssl_ca_certs": path("ca.crt"), "ssl_check_hostname": False, "username": user,
             "password": "secret" if user else None, "socket_timeout": 30}
    if certificate:
        found.update(ssl_certfile=path("client.crt"), ssl_keyfile=path("client.key"))
    found.update(more)
    return found


def connect(*args, **more):
    return redis.Redis(**options(*args, **more))


def admin():
    return redis.Redis(port=6379, socket_timeout=30)


def set_user(name, rules):
    admin().execute_command("ACL", "SETUSER", name, *rules)


def refused(error, work, *args):
    try:
        found = work(*args)
    except error:
        return
    raise AssertionError("%r instead of %s" % (found, error))


def until(condition, what, limit_s=20):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "timeout: " + what
        time.sleep(0.02)


def parallel(count, work):
    errors = []

    def run(number):
        try:
            work(number)
        except Exception:                       # noqa: B902
            errors.append(traceback.format_exc())
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors[0]


def permissions():
    for certificate in (True, False):
        with connect(certificate=certificate) as client:
            assert client.set("app:a", "1") and client.get("app:a") == b"1" and client.incr("app:a") == 2
            assert client.hset("app:h", mapping={"f": "1", "g": "2"}) >= 0 and client.hgetall("app:h") == {b"f": b"1", b"g": b"2"}
            for work in (lambda: client.get("other"), lambda: client.mget("app:a", "other"), lambda: client.keys("*"), client.flushall, client.config_get, client.acl_list,
                         lambda: client.eval("return 1", 0), lambda: client.rename("app:a", "b"), lambda: client.publish("app:x", "m"), lambda: client.sort("app:l", by="w_*"),
                         lambda: client.pipeline(transaction=True).get("app:a").execute()):
                refused(redis.exceptions.NoPermissionError, work)
            assert client.get("app:a") == b"2"
            client.delete("app:a", "app:h")


def passwords():
    refused(redis.exceptions.AuthenticationError, connect(password="wrong").get, "app:a")
    refused(redis.exceptions.AuthenticationError, connect(user="missing").get, "app:a")
    control = admin()
    control.config_set("requirepass", "other")
    try:
        refused(redis.exceptions.AuthenticationError, connect(user=None).ping)
        refused(redis.exceptions.AuthenticationError, connect(user=None, password="secret").ping)
        assert connect(user=None, password="other").ping()
        assert connect(user=None, password="other", protocol=3).ping()          # HELLO 3 AUTH
        assert connect().get("app:none") is None
    finally:
        control.config_set("requirepass", "")
    assert connect(user=None).ping()


def protocol_3():
    set_user("three", TALKING_RULES)
    with connect(user="three", protocol=3) as client:
        client.zadd("app:z", {"a": 1.5})
        assert client.zrange("app:z", 0, -1, withscores=True) == [[b"a", 1.5]], client.zrange("app:z", 0, -1, withscores=True)
        assert client.client_info()["user"] == "three" and client.client_info()["resp"] == "3"
        client.delete("app:z")


def pool():
    shared = redis.BlockingConnectionPool(max_connections=10, timeout=60, connection_class=redis.SSLConnection,
                                          **{name: value for name, value in options().items() if name != "ssl"})
    client = redis.Redis(connection_pool=shared)

    def work(number):
        for turn in range(60):
            pipe = client.pipeline(transaction=False)
            for i in range(20):
                pipe.set("app:%d:%d" % (number, i), b"%d:%d;" % (number, turn) * 200)
                pipe.incr("app:counter")
            pipe.execute()
            assert client.mget(["app:%d:%d" % (number, i) for i in range(20)]) == [b"%d:%d;" % (number, turn) * 200] * 20
    client.delete("app:counter")
    parallel(20, work)
    assert client.get("app:counter") == b"24000", client.get("app:counter")
    shared.disconnect()


def large():
    with connect() as client:
        body = os.urandom(1 << 20)
        for size in (0, 1, 16383, 16384, 16385, 1 << 20):
            client.set("app:large", body[:size])
            assert client.get("app:large") == body[:size]
        client.delete("app:large")


def change_of_rules():
    set_user("changing", RULES)
    client = connect(user="changing")
    assert client.set("app:c", 1)
    set_user("changing", ["-set"])
    refused(redis.exceptions.NoPermissionError, client.set, "app:c", 2)
    set_user("changing", ["+set", "resetkeys", "~other:*"])
    refused(redis.exceptions.NoPermissionError, client.set, "app:c", 3)
    assert client.set("other:c", 3) and client.delete("other:c") == 1
    set_user("changing", RULES)
    assert client.get("app:c") == b"1"


def deleted_user():
    set_user("leaving", RULES)
    client = connect(user="leaving", retry=Retry(ConstantBackoff(0.05), 2), retry_on_error=[redis.exceptions.ConnectionError])
    assert client.set("app:d", 1)
    admin().acl_deluser("leaving")
    refused(redis.exceptions.AuthenticationError, client.get, "app:d")
    set_user("leaving", RULES)
    assert client.get("app:d") == b"1"
    waiting = connect(user="leaving", socket_timeout=60)
    errors = []

    def wait():
        try:
            waiting.blpop("app:none", 30)
        except redis.exceptions.ConnectionError as error:
            errors.append(error)
    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: any(each["cmd"] == "blpop" for each in admin().client_list()), "it waits")
    admin().acl_deluser("leaving")
    thread.join(20)
    assert not thread.is_alive() and errors, errors


def killed_connections():
    client = connect(retry=Retry(ConstantBackoff(0.05), 3), retry_on_error=[redis.exceptions.ConnectionError])
    for turn in range(20):
        assert client.set("app:k", turn)
        assert admin().execute_command("CLIENT", "KILL", "USER", "app") >= 1
        assert client.get("app:k") == b"%d" % turn


def channels():
    set_user("hearing", TALKING_RULES)
    listener = connect(user="hearing").pubsub(ignore_subscribe_messages=True)
    listener.subscribe("app:news")
    listener.psubscribe("app:*")
    assert listener.get_message(timeout=0.5) is None and listener.get_message(timeout=0.5) is None
    found = []
    speaker = connect(user="hearing")
    refused(redis.exceptions.NoPermissionError, speaker.publish, "news", "x")
    until(lambda: speaker.publish("app:news", "x" * 20000) == 2, "both subscriptions")
    until(lambda: found.append(listener.get_message(timeout=0.1)) or sum(each is not None for each in found) == 2, "two messages")
    other = connect(user="hearing").pubsub()
    other.subscribe("news")
    refused(redis.exceptions.NoPermissionError, other.get_message, True, 10)
    set_user("hearing", ["resetchannels"])
    until(lambda: not any(each["user"] == "hearing" and each["psub"] == "1" for each in admin().client_list()), "the subscriber was disconnected")


def certificates():
    control = admin()
    control.config_set("tls-auth-clients", "yes")
    try:
        refused(redis.exceptions.ConnectionError, connect(certificate=False).get, "app:a")
        assert connect().set("app:cert", 1)
    finally:
        control.config_set("tls-auth-clients", "optional")
    assert connect(certificate=False).get("app:cert") == b"1"


def with_asyncio():
    async def work():
        client = redis.asyncio.Redis(**options(max_connections=50))

        async def one(number):
            for turn in range(20):
                await client.set("app:async:%d" % number, turn)
                assert await client.get("app:async:%d" % number) == b"%d" % turn
        await asyncio.gather(*[one(number) for number in range(40)])
        await client.aclose()
    asyncio.run(work())


def queue():
    """As Sidekiq: sets of queues, BRPOP over several of them, scheduled jobs in a sorted set, transactions, a script."""
    set_user("jobs", QUEUE_RULES)
    script = "local jobs = redis.call('zrange', KEYS[1], '-inf', ARGV[1], 'byscore', 'limit', 0, 1)\nif jobs[1] then redis.call('zrem', KEYS[1], jobs[1]) end\nreturn jobs[1]"
    done, lock = [], threading.Lock()

    def producer(number):
        client = connect(user="jobs")
        for i in range(100):
            with client.pipeline(transaction=True) as pipe:
                pipe.sadd("queues", "q%d" % (i % 3)).lpush("queue:%d" % (i % 3), "%d:%d" % (number, i)).incr("stat:pushed").execute()
        client.zadd("retry", {"late:%d:%d" % (number, i): time.time() for i in range(20)})

    def scheduler(_):
        client = connect(user="jobs")
        take, moved = client.register_script(script), 0
        while moved < 80:
            job = take(keys=["retry"], args=[time.time()])
            if job:
                moved += 1
                client.lpush("queue:0", job)
            else:
                time.sleep(0.01)

    def consumer(_):
        client = connect(user="jobs")
        while True:
            job = client.brpop(["queue:0", "queue:1", "queue:2"], 3)
            if job is None:
                return
            with lock:
                done.append(job[1])
            client.incr("stat:processed")
    client = connect(user="jobs")
    client.delete("queues", "queue:0", "queue:1", "queue:2", "retry", "stat:pushed", "stat:processed")
    parallel(9, lambda number: producer(number) if number < 4 else scheduler(number) if number == 4 else consumer(number))
    assert len(done) == len(set(done)) == 480, (len(done), len(set(done)))
    assert client.mget("stat:pushed", "stat:processed") == [b"400", b"480"] and client.smembers("queues") == {b"q0", b"q1", b"q2"}
    refused(redis.exceptions.NoPermissionError, client.flushdb)


def exporter():
    """What a monitoring program reads, as a user that may do little else."""
    set_user("watching", EXPORTER_RULES)
    client = connect(user="watching", certificate=False)
    everything = client.info("all")
    for name in ("redis_version uptime_in_seconds connected_clients maxclients blocked_clients used_memory used_memory_rss maxmemory mem_fragmentation_ratio "
                 "loading rdb_changes_since_last_save rdb_last_bgsave_status aof_enabled total_connections_received total_commands_processed instantaneous_ops_per_sec "
                 "rejected_connections expired_keys evicted_keys keyspace_hits keyspace_misses pubsub_channels latest_fork_usec role connected_slaves "
                 "master_repl_offset used_cpu_sys used_cpu_user cluster_enabled tracking_clients total_net_input_bytes total_net_output_bytes allocator_active").split():
        assert name in everything, name
    assert any(name.startswith("cmdstat_") for name in everything) and any(name.startswith("latency_percentiles_usec_") for name in everything)
    assert any(name.startswith("errorstat_") for name in everything) and "keys" in client.info("keyspace").get("db15", {"keys": 0})
    assert client.config_get("*")["maxmemory"].isdigit()
    assert client.slowlog_len() >= 0 and isinstance(client.slowlog_get(1), list)
    assert isinstance(client.latency_latest(), list)
    assert client.execute_command("LATENCY", "HISTOGRAM", "get")
    assert client.client_list()[0]["addr"] and client.scan(0, count=10)
    assert client.eval("return 1", 0) == 1
    refused(redis.exceptions.NoPermissionError, client.set, "a", 1)
    refused(redis.exceptions.NoPermissionError, client.config_set, "maxmemory", 0)


def main():
    set_user("app", RULES)
    for check in (permissions, passwords, protocol_3, pool, large, change_of_rules, deleted_user, killed_connections, channels, certificates, with_asyncio, queue, exporter):
        try:
            check()
            print("ok", check.__name__, flush=True)
        except Exception as error:              # noqa: B902
            lines = traceback.format_exc().strip().splitlines()
            print("FAIL %s: %s %s" % (check.__name__, " ".join(repr(error).split())[:200], " ".join(lines[-4:-1])[:200]), flush=True)
    print("ok (end)")


if __name__ == "__main__":
    main()
