import io.lettuce.core.KeyValue;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.ToLongFunction;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.ScanParams;

/** Clusters with Jedis and Lettuce: keys of all slots, pipelines, scripts, messages, replicas; slots that move and failovers meanwhile. */
public class ClusterWork {
    static final int PORT = 16379, COUNT = 600, MOVED = 8;

    interface Check { void run() throws Exception; }

    /** A node as the first one sees it. */
    static class Node {
        final String id, host, flags;
        final int port;
        final List<int[]> slots = new ArrayList<>();

        Node(String line) {
            String[] words = line.split(" "), address = words[1].split("@")[0].split(":");
            id = words[0];
            flags = words[2];
            host = address[0];
            port = Integer.parseInt(address[1]);
            for (int n = 8; n < words.length; n++)
                if (!words[n].startsWith("[")) slots.add(Arrays.stream(words[n].split("-")).mapToInt(Integer::parseInt).toArray());
        }

        Jedis open() { return new Jedis(host, port, 20000); }
        boolean owns(int slot) { return slots.stream().anyMatch(range -> range[0] <= slot && slot <= range[range.length - 1]); }
    }

    static List<Node> nodes() {
        List<Node> found = new ArrayList<>();
        try (Jedis jedis = new Jedis("127.0.0.1", PORT)) {
            for (String line : jedis.clusterNodes().trim().split("\n")) found.add(new Node(line));
        }
        return found;
    }

    static List<Node> primaries() {
        List<Node> found = nodes();
        found.removeIf(node -> node.slots.isEmpty());
        return found;
    }

    static void check(String name, Check check) {
        try {
            for (Node node : primaries()) try (Jedis jedis = node.open()) { jedis.flushAll(); }
            check.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            System.out.println("FAIL " + name + ": " + (error + " " + error.getCause()).replaceAll("\\s+", " "));
        }
    }

    static void equal(Object found, Object wanted) {
        if (!wanted.equals(found)) throw new AssertionError(found + " instead of " + wanted);
    }

    static void until(java.util.concurrent.Callable<Boolean> condition, String what) throws Exception {
        for (int n = 0; n < 3000; n++) {
            if (condition.call()) return;
            Thread.sleep(10);
        }
        throw new AssertionError("timeout: " + what);
    }

    static List<String> names(String prefix, int count) {
        List<String> names = new ArrayList<>();
        for (int n = 0; n < count; n++) names.add(prefix + ":" + n);
        return names;
    }

    // Changes

    static String cluster(Jedis jedis, String... words) {
        Object reply = jedis.sendCommand(Command.CLUSTER, words);
        return reply instanceof byte[] ? new String((byte[]) reply) : String.valueOf(reply);
    }

    /** The slot and its keys go to another primary, as redis-cli does it. */
    static void move(int slot) throws Exception {
        List<Node> nodes = primaries();
        Node source = nodes.stream().filter(node -> node.owns(slot)).findFirst().get(), target = nodes.get((nodes.indexOf(source) + 1) % nodes.size());
        String number = String.valueOf(slot);
        try (Jedis from = source.open(); Jedis to = target.open()) {
            cluster(to, "SETSLOT", number, "IMPORTING", source.id);
            cluster(from, "SETSLOT", number, "MIGRATING", target.id);
            for (;;) {
                List<String> keys = from.clusterGetKeysInSlot(slot, 10);
                if (keys.isEmpty()) break;
                List<String> words = new ArrayList<>(Arrays.asList(target.host, String.valueOf(target.port), "", "0", "5000", "KEYS"));
                words.addAll(keys);
                from.sendCommand(Command.MIGRATE, words.toArray(new String[0]));
                Thread.sleep(20);                               // so that clients meet the slot half moved
            }
            cluster(to, "SETSLOT", number, "NODE", target.id);
            cluster(from, "SETSLOT", number, "NODE", target.id);
        }
        until(() -> nodes().stream().anyMatch(node -> node.id.equals(target.id) && node.owns(slot)), "the first node knows the new owner");
    }

    static void moveAll(Iterable<Integer> slots) throws Exception {
        for (int slot : slots) move(slot);
    }

    /** A replica takes over from each primary, without a loss. */
    static void failOver() throws Exception {
        for (Node node : nodes()) {
            if (!node.flags.contains("slave")) continue;
            try (Jedis jedis = node.open()) {
                until(() -> jedis.info("replication").contains("master_link_status:up"), "the replica is in sync");
                for (int n = 0; !jedis.info("replication").contains("role:master"); n++, Thread.sleep(10)) {
                    if (n % 600 == 0) jedis.clusterFailover();          // nobody votes twice within two timeouts for the replicas of a primary
                    if (n == 6000) throw new AssertionError("timeout: it takes over");
                }
            }
        }
    }

    /** The command is sent again while no node serves the slot: a node that hears of a failover from the old primary first has no owner for it. */
    static long patiently(ToLongFunction<String> command, String key) throws Exception {
        for (int n = 0;; n++, Thread.sleep(10)) {
            try {
                return command.applyAsLong(key);
            } catch (RuntimeException error) {
                if (n == 500 || !String.valueOf(error.getMessage()).startsWith("CLUSTERDOWN")) throw error;
            }
        }
    }

    /** One more each round for each key, while `change` runs: no round is lost, and none is counted twice. */
    static void count(ToLongFunction<String> increment, ToLongFunction<String> value, List<String> keys, Check change) throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        AtomicInteger rounds = new AtomicInteger();
        AtomicReference<Throwable> wrong = new AtomicReference<>();
        Thread work = new Thread(() -> {
            try {
                for (; !ended.get(); rounds.incrementAndGet()) for (String key : keys) equal(patiently(increment, key), rounds.get() + 1L);
            } catch (Throwable error) {
                wrong.set(error);
            }
        });
        Check go = () -> {
            int before = rounds.get();
            until(() -> wrong.get() != null || rounds.get() > before + 2, "the writer writes");
        };
        work.start();
        go.run();
        change.run();
        go.run();
        ended.set(true);
        work.join();
        if (wrong.get() != null) throw new AssertionError(wrong.get());
        for (String key : keys) equal(value.applyAsLong(key), (long) rounds.get());
    }

    /** Counters whose keys are in slots that move, 20 in each. */
    static void countMoved(ToLongFunction<String> increment, ToLongFunction<String> value, String prefix) throws Exception {
        List<String> keys = new ArrayList<>();
        Set<Integer> slots = new TreeSet<>();
        try (Jedis jedis = new Jedis("127.0.0.1", PORT)) {
            for (String tag : names(prefix, MOVED)) {
                slots.add((int) jedis.clusterKeySlot(tag));
                for (int n = 0; n < 20; n++) keys.add("{" + tag + "}" + n);
            }
        }
        count(increment, value, keys, () -> moveAll(slots));
    }

    // Jedis

    static void withJedis(java.util.function.Consumer<JedisCluster> use) {
        try (JedisCluster cluster = new JedisCluster(new HostAndPort("127.0.0.1", PORT), 5000, 30)) { use.accept(cluster); }
    }

    static void run(Check check) {
        try { check.run(); } catch (Exception error) { throw new RuntimeException(error); }
    }

    static void jedisKeys() {
        withJedis(cluster -> {
            for (String key : names("key", COUNT)) equal(cluster.set(key, "value of " + key), "OK");
            for (String key : names("key", COUNT)) equal(cluster.get(key), "value of " + key);
            long size = 0;
            for (Node node : primaries()) try (Jedis jedis = node.open()) { size += jedis.dbSize(); }
            equal(size, (long) COUNT);
            Set<String> found = new HashSet<>();
            for (Node node : primaries()) try (Jedis jedis = node.open()) {
                String cursor = "0";
                do {
                    var page = jedis.scan(cursor, new ScanParams().count(50));
                    found.addAll(page.getResult());
                    cursor = page.getCursor();
                } while (!cursor.equals("0"));
            }
            equal(found, new HashSet<>(names("key", COUNT)));
        });
    }

    static void jedisSlots() {
        withJedis(cluster -> {
            equal(cluster.mset("{a}1", "x", "{a}2", "y"), "OK");
            equal(cluster.mget("{a}1", "{a}2", "{a}3"), Arrays.asList("x", "y", null));
            equal(cluster.eval("return {redis.call('GET', KEYS[1]), ARGV[1]}", Arrays.asList("{a}1"), Arrays.asList("word")), Arrays.asList("x", "word"));
            String sha = cluster.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])", "{b}");
            equal(cluster.evalsha(sha, Arrays.asList("{b}n"), Arrays.asList("7")), 7L);
            equal(cluster.rename("{a}1", "{a}9"), "OK");
            equal(cluster.sunion("{a}none", "{a}nothing"), Collections.emptySet());
            try (Jedis jedis = new Jedis("127.0.0.1", PORT)) {
                try {
                    jedis.mget("a", "b");
                    throw new AssertionError("no error");
                } catch (redis.clients.jedis.exceptions.JedisDataException error) {
                    equal(error.getMessage().split(" ")[0], "CROSSSLOT");
                }
            }
        });
    }

    static void jedisPipelines() {
        withJedis(cluster -> {
            Map<String, Response<String>> found = new LinkedHashMap<>();
            try (ClusterPipeline pipeline = cluster.pipelined()) {
                for (String key : names("piped", COUNT)) {
                    pipeline.set(key, key);
                    found.put(key, pipeline.get(key));
                }
                pipeline.sync();
                found.forEach((key, reply) -> equal(reply.get(), key));
            }
        });
    }

    static void jedisMessages() {
        withJedis(cluster -> run(() -> {
            List<String> got = Collections.synchronizedList(new ArrayList<>());
            JedisPubSub listener = new JedisPubSub() { public void onMessage(String channel, String message) { got.add(message); } };
            JedisShardedPubSub sharded = new JedisShardedPubSub() { public void onSMessage(String channel, String message) { got.add(message); } };
            Thread one = new Thread(() -> cluster.subscribe(listener, "news")), two = new Thread(() -> cluster.ssubscribe(sharded, "{s}hard"));
            one.start();
            two.start();
            until(() -> listener.getSubscribedChannels() == 1 && sharded.getSubscribedChannels() == 1, "the subscriptions");
            for (Node node : nodes()) try (Jedis jedis = node.open()) { jedis.publish("news", "from any node"); }
            cluster.spublish("{s}hard", "of a shard");
            until(() -> got.size() == 7, "the messages");
            listener.unsubscribe();
            sharded.sunsubscribe();
            one.join(5000);
            two.join(5000);
        }));
    }

    static void jedisBlocked() {
        withJedis(cluster -> run(() -> {
            List<String> keys = names("queue", 20);
            for (String key : keys) {
                AtomicReference<List<String>> popped = new AtomicReference<>();
                Thread waiter = new Thread(() -> popped.set(cluster.blpop(20, key)));
                waiter.start();
                cluster.rpush(key, "item");
                waiter.join();
                equal(popped.get(), Arrays.asList(key, "item"));
            }
        }));
    }

    static void jedisMoves() {
        withJedis(cluster -> run(() -> countMoved(cluster::incr, key -> Long.parseLong(cluster.get(key)), "jedis")));
    }

    static void jedisFailovers() {
        withJedis(cluster -> run(() -> count(cluster::incr, key -> Long.parseLong(cluster.get(key)), names("jedis", 60), ClusterWork::failOver)));
    }

    // Lettuce

    interface LettuceUse { void run(RedisClusterClient client, StatefulRedisClusterConnection<String, String> connection) throws Exception; }

    static void withLettuce(LettuceUse use) throws Exception {
        RedisClusterClient client = RedisClusterClient.create(RedisURI.create("127.0.0.1", PORT));
        var refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers().enablePeriodicRefresh(Duration.ofSeconds(1)).build();
        client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).maxRedirects(30).build());
        try (StatefulRedisClusterConnection<String, String> connection = client.connect()) {
            use.run(client, connection);
        } finally {
            client.shutdown(0, 2, java.util.concurrent.TimeUnit.SECONDS);
        }
    }

    static void lettuceKeys() throws Exception {
        withLettuce((client, connection) -> {
            var sync = connection.sync();
            Map<String, String> pairs = new LinkedHashMap<>();
            for (String key : names("all", COUNT)) pairs.put(key, "value of " + key);
            equal(sync.mset(pairs), "OK");                      // Lettuce divides these by slots
            List<KeyValue<String, String>> found = sync.mget(pairs.keySet().toArray(new String[0]));
            for (KeyValue<String, String> each : found) equal(each.getValue(), pairs.get(each.getKey()));
            equal(sync.dbsize(), (long) COUNT);
            equal(new HashSet<>(sync.keys("all:*")), pairs.keySet());
            equal(sync.del(pairs.keySet().toArray(new String[0])), (long) COUNT);
        });
    }

    static void lettuceTopology() throws Exception {
        withLettuce((client, connection) -> {
            client.refreshPartitions();
            equal(client.getPartitions().size(), 6);
            Set<Integer> slots = new HashSet<>();
            client.getPartitions().forEach(node -> { if (node.getRole().isUpstream()) slots.addAll(node.getSlots()); });
            equal(slots.size(), 16384);
            Set<String> ids = new HashSet<>(), wanted = new HashSet<>();
            client.getPartitions().forEach(node -> ids.add(node.getNodeId()));
            nodes().forEach(node -> wanted.add(node.id));
            equal(ids, wanted);
            for (String reply : connection.sync().all().commands().ping()) equal(reply, "PONG");
        });
    }

    static void lettuceReplicas() throws Exception {
        withLettuce((client, connection) -> {
            for (String key : names("replica", COUNT)) connection.sync().set(key, key);
            for (Node node : primaries()) try (Jedis jedis = node.open()) { equal(jedis.waitReplicas(1, 20000), 1L); }
            connection.setReadFrom(ReadFrom.REPLICA);
            for (String key : names("replica", COUNT)) equal(connection.sync().get(key), key);
        });
    }

    static void lettuceScripts() throws Exception {
        withLettuce((client, connection) -> {
            var sync = connection.sync();
            equal(sync.eval("return redis.call('SET', KEYS[1], ARGV[1])", ScriptOutputType.STATUS, new String[] {"k"}, "v"), "OK");
            String sha = sync.scriptLoad("return redis.call('GET', KEYS[1])");
            for (String key : names("k", 30)) equal(String.valueOf((Object) sync.evalsha(sha, ScriptOutputType.VALUE, new String[] {key})), "null");
            equal(sync.evalsha(sha, ScriptOutputType.VALUE, new String[] {"k"}), "v");
        });
    }

    static void lettuceMessages() throws Exception {
        withLettuce((client, connection) -> {
            List<String> got = Collections.synchronizedList(new ArrayList<>());
            try (StatefulRedisClusterPubSubConnection<String, String> listener = client.connectPubSub()) {
                listener.addListener(new RedisPubSubAdapter<String, String>() { public void message(String channel, String message) { got.add(message); } });
                listener.sync().subscribe("news");
                for (Node node : nodes()) try (Jedis jedis = node.open()) { jedis.publish("news", "from any node"); }
                until(() -> got.size() == 6, "the messages");
            }
        });
    }

    static void lettuceMoves() throws Exception {
        withLettuce((client, connection) -> countMoved(connection.sync()::incr, key -> Long.parseLong(connection.sync().get(key)), "lettuce"));
    }

    static void lettuceFailovers() throws Exception {
        withLettuce((client, connection) -> count(connection.sync()::incr, key -> Long.parseLong(connection.sync().get(key)), names("lettuce", 60), ClusterWork::failOver));
    }

    public static void main(String[] arguments) {
        check("jedis keys of all slots", ClusterWork::jedisKeys);
        check("jedis several keys and scripts of a slot", ClusterWork::jedisSlots);
        check("jedis pipelines over all slots", ClusterWork::jedisPipelines);
        check("jedis messages", ClusterWork::jedisMessages);
        check("jedis blocked clients", ClusterWork::jedisBlocked);
        check("jedis counters while slots move", ClusterWork::jedisMoves);
        check("jedis counters while replicas take over", ClusterWork::jedisFailovers);
        check("lettuce keys of all slots", ClusterWork::lettuceKeys);
        check("lettuce topology", ClusterWork::lettuceTopology);
        check("lettuce reads from replicas", ClusterWork::lettuceReplicas);
        check("lettuce scripts", ClusterWork::lettuceScripts);
        check("lettuce messages", ClusterWork::lettuceMessages);
        check("lettuce counters while slots move", ClusterWork::lettuceMoves);
        check("lettuce counters while replicas take over", ClusterWork::lettuceFailovers);
        System.out.println("ok (end)");
        System.exit(0);
    }
}
