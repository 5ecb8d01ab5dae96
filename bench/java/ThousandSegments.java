import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Opens a log with Apache Kafka's own class and seeks in it: FOLDER BATCHES OFFSETS_IN_PAIR START_MS MS_BETWEEN SEEKS.
 * The last line is what it took, as JSON.
 */
public class ThousandSegments {
    public static void main(String[] args) throws Exception {
        File folder = new File(args[0]);
        int batches = Integer.parseInt(args[1]);
        long offsets = Long.parseLong(args[2]);
        long startMs = Long.parseLong(args[3]);
        long between = Long.parseLong(args[4]);
        int seeks = Integer.parseInt(args[5]);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog first = open(folder, scheduler);
        seek(first, new Random(1), seeks, batches, offsets, startMs, between);
        first.close();
        System.gc();
        long rss = rss();
        long files = files();
        long started = System.nanoTime();
        UnifiedLog log = open(folder, scheduler);
        double openMs = (System.nanoTime() - started) / 1e6;
        double[] rates = seek(log, new Random(5), seeks, batches, offsets, startMs, between);
        System.gc();
        System.out.printf("{\"open_ms\": %f, \"offset_seeks\": %f, \"time_seeks\": %f, \"rss_mb\": %f, \"open_files\": %d}%n",
            openMs, rates[0], rates[1], (rss() - rss) / 1e6, files() - files);
        log.close();
        System.exit(0);
    }

    private static UnifiedLog open(File folder, KafkaScheduler scheduler) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("retention.ms", "-1");
        return UnifiedLog.create(folder, new LogConfig(properties), 0L, 0L, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true, Optional.empty());
    }

    private static double[] seek(UnifiedLog log, Random draw, int seeks, int batches, long offsets, long startMs, long between)
            throws Exception {
        int[] numbers = draw.ints(seeks, 0, batches).toArray();
        long started = System.nanoTime();
        for (int number : numbers)
            if (log.read((number + 1) * offsets - 1, 1, FetchIsolation.LOG_END, true).records.sizeInBytes() > 1000)
                throw new IllegalStateException("a small batch was expected");
        long middle = System.nanoTime();
        for (int number : numbers) {
            var found = log.fetchOffsetByTimestamp(startMs + (number + 1) * between, Optional.empty());
            if (found.timestampAndOffsetOpt().get().offset != (number + 1) * offsets - 1)
                throw new IllegalStateException("another offset was expected");
        }
        long ended = System.nanoTime();
        return new double[] {seeks * 1e9 / (middle - started), seeks * 1e9 / (ended - middle)};
    }

    private static long rss() throws Exception {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    private static long files() {
        return new File("/proc/self/fd").list().length;
    }
}
