import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.params.XReadGroupParams;

/** Jedis and Lettuce: pools, transactions with WATCH, scripts, pub/sub, streams, RESP3, and Lettuce's client-side cache. */
public class JedisWork {
    interface Check { void run() throws Exception; }

    static void check(String name, Check check) {
        try (Jedis jedis = new Jedis("127.0.0.1", 6379)) {
            jedis.flushDB();
            check.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            System.out.println("FAIL " + name + ": " + String.valueOf(error).replaceAll("\\s+", " "));
        }
    }

    static void equal(Object found, Object wanted) {
        if (!wanted.equals(found)) throw new AssertionError(found + " instead of " + wanted);
    }

    static void until(java.util.concurrent.Callable<Boolean> condition, String what) throws Exception {
        for (int n = 0; n < 1000; n++) {
            if (condition.call()) return;
            Thread.sleep(10);
        }
        throw new AssertionError("timeout: " + what);
    }

    static void transactions() {
        try (Jedis jedis = new Jedis("127.0.0.1", 6379)) {
            Transaction t = jedis.multi();
            Response<String> set = t.set("k", "1");
            Response<Long> incr = t.incr("k");
            Response<Map<String, String>> all = t.hgetAll("none");
            t.exec();
            equal(set.get() + incr.get() + all.get(), "OK2{}");
            t = jedis.multi();
            t.set("k", "9");
            t.discard();
            equal(jedis.get("k"), "2");
            jedis.watch("k");
            try (Jedis other = new Jedis("127.0.0.1", 6379)) { other.set("k", "5"); }
            t = jedis.multi();
            t.set("k", "6");
            if (t.exec() != null) throw new AssertionError("EXEC ran");
        }
    }

    static void watchByManyThreads() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        try (JedisPool pool = new JedisPool("127.0.0.1", 6379)) {
            pool.setMaxTotal(6);
            List<Future<?>> done = new ArrayList<>();
            for (int i = 0; i < 6; i++) done.add(threads.submit(() -> {
                for (int n = 0; n < 50;) try (Jedis jedis = pool.getResource()) {
                    jedis.watch("counter");
                    String value = jedis.get("counter");
                    Transaction t = jedis.multi();
                    t.set("counter", String.valueOf(value == null ? 1 : Integer.parseInt(value) + 1));
                    if (t.exec() != null) n++;
                }
            }));
            for (Future<?> each : done) each.get();
            try (Jedis jedis = pool.getResource()) { equal(jedis.get("counter"), "300"); }
        } finally {
            threads.shutdownNow();
        }
    }

    static void scripts() {
        try (Jedis jedis = new Jedis("127.0.0.1", 6379)) {
            String sha = jedis.scriptLoad("return {KEYS[1], tonumber(ARGV[1]), redis.call('INCR', KEYS[1])}");
            for (long n = 1; n <= 100; n++) equal(jedis.evalsha(sha, 1, "k", "7"), Arrays.<Object>asList("k", 7L, n));
            jedis.scriptFlush();
            try {
                jedis.evalsha(sha, 1, "k", "7");
                throw new AssertionError("no error");
            } catch (redis.clients.jedis.exceptions.JedisNoScriptException fine) { }
            jedis.functionFlush();
            equal(jedis.functionLoad("#!lua name=java\nredis.register_function('sum', function(keys, args) return args[1] + args[2] end)"), "java");
            equal(jedis.fcall("sum", new ArrayList<>(), Arrays.asList("1", "2")), 3L);
            jedis.functionDelete("java");
        }
    }

    static void pipelines() {
        try (Jedis jedis = new Jedis("127.0.0.1", 6379)) {
            Pipeline pipeline = jedis.pipelined();
            List<Response<String>> found = new ArrayList<>();
            for (int n = 0; n < 2000; n++) {
                pipeline.set("k" + n, "v" + n);
                found.add(pipeline.get("k" + n));
            }
            pipeline.sync();
            for (int n = 0; n < 2000; n++) equal(found.get(n).get(), "v" + n);
        }
    }

    static void publish() throws Exception {
        List<String> got = java.util.Collections.synchronizedList(new ArrayList<>());
        JedisPubSub listener = new JedisPubSub() {
            public void onMessage(String channel, String message) { got.add(message); }
            public void onPMessage(String pattern, String channel, String message) { got.add(pattern + message); }
        };
        Thread thread = new Thread(() -> { try (Jedis jedis = new Jedis("127.0.0.1", 6379)) { jedis.subscribe(listener, "news"); } });
        thread.start();
        until(() -> listener.getSubscribedChannels() == 1, "the subscription");
        listener.psubscribe("n*");
        until(() -> listener.getSubscribedChannels() == 2, "the pattern");
        try (Jedis jedis = new Jedis("127.0.0.1", 6379)) {
            for (int n = 0; n < 200; n++) equal(jedis.publish("news", "m" + n), 2L);
        }
        until(() -> got.size() == 400, "the messages");
        for (int n = 0; n < 200; n++) equal(got.get(2 * n) + got.get(2 * n + 1), "m" + n + "n*m" + n);
        listener.unsubscribe();
        listener.punsubscribe();
        thread.join(5000);
    }

    static void streams() {
        try (Jedis jedis = new Jedis("127.0.0.1", 6379)) {
            jedis.xgroupCreate("s", "g", new StreamEntryID(0, 0), true);
            for (int n = 0; n < 100; n++) jedis.xadd("s", StreamEntryID.NEW_ENTRY, Map.of("n", String.valueOf(n)));
            int seen = 0;
            while (seen < 100) {
                for (var entry : jedis.xreadGroup("g", "c" + seen % 3, XReadGroupParams.xReadGroupParams().count(7), Map.of("s", StreamEntryID.UNRECEIVED_ENTRY)).get(0).getValue()) {
                    equal(entry.getFields().get("n"), String.valueOf(seen++));
                    equal(jedis.xack("s", "g", entry.getID()), 1L);
                }
            }
        }
    }

    static void resp3() {
        try (Jedis jedis = new Jedis(new HostAndPort("127.0.0.1", 6379), DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build())) {
            jedis.hset("h", "f", "v");
            jedis.zadd("z", 1.5, "m");
            jedis.sadd("s", "x");
            equal(jedis.hgetAll("h"), Map.of("f", "v"));
            equal(jedis.zscore("z", "m"), 1.5);
            Transaction t = jedis.multi();
            Response<Map<String, String>> map = t.hgetAll("h");
            Response<Double> score = t.zscore("z", "m");
            t.exec();
            equal(map.get() + " " + score.get(), "{f=v} 1.5");
        }
    }

    static void lettuceScriptsAndTransactions() {
        RedisClient client = RedisClient.create("redis://127.0.0.1:6379");
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            var sync = connection.sync();
            equal(sync.eval("return redis.call('SET', KEYS[1], ARGV[1])", ScriptOutputType.STATUS, new String[] {"k"}, "v"), "OK");
            sync.multi();
            sync.get("k");
            sync.incr("n");
            var result = sync.exec();
            equal(result.get(0) + " " + result.get(1), "v 1");
        } finally {
            client.shutdown();
        }
    }

    static void lettuceCache() throws Exception {
        RedisClient client = RedisClient.create("redis://127.0.0.1:6379");
        try (StatefulRedisConnection<String, String> connection = client.connect(); StatefulRedisConnection<String, String> other = client.connect()) {
            Map<String, String> local = new ConcurrentHashMap<>();
            CacheFrontend<String, String> cache = ClientSideCaching.enable(CacheAccessor.forMap(local), connection, TrackingArgs.Builder.enabled());
            for (int n = 0; n < 100; n++) {
                String value = "v" + n;
                other.sync().set("k", value);
                until(() -> value.equals(cache.get("k")), "the invalidation");
                equal(local.get("k"), value);
            }
            other.sync().del("k");
            until(() -> !local.containsKey("k"), "the invalidation by DEL");
        } finally {
            client.shutdown();
        }
    }

    public static void main(String[] arguments) {
        check("transactions", JedisWork::transactions);
        check("watch by many threads", JedisWork::watchByManyThreads);
        check("scripts and functions", JedisWork::scripts);
        check("pipelines", JedisWork::pipelines);
        check("publish and subscribe", JedisWork::publish);
        check("streams", JedisWork::streams);
        check("resp3", JedisWork::resp3);
        check("lettuce scripts and transactions", JedisWork::lettuceScriptsAndTransactions);
        check("lettuce client-side cache", JedisWork::lettuceCache);
        System.out.println("ok (end)");
        System.exit(0);
    }
}
