import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Cleans logs with Apache Kafka's own Cleaner.  Each line of the file in args[0] is one log:
 * folder, now, first dirty offset, first uncleanable offset, bytes of the offset map, bytes of a segment,
 * delete.retention.ms, index.interval.bytes.  For each it prints the offset at which the next cleaning starts.
 */
public class Compact {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] fields = line.split("\t");
            File folder = new File(fields[0]);
            Properties properties = new Properties();
            properties.setProperty("cleanup.policy", "compact");
            properties.setProperty("internal.segment.bytes", fields[5]);
            properties.setProperty("delete.retention.ms", fields[6]);
            properties.setProperty("index.interval.bytes", fields[7]);
            UnifiedLog log = UnifiedLog.create(folder, new LogConfig(properties), 0L, Long.MAX_VALUE, new Never(),
                new BrokerTopicStats(), Time.SYSTEM, 900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false),
                600_000, new LogDirFailureChannel(1), true, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(fields[4])), 262_144, 1_048_588, 0.9,
                new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
            LogToClean target = new LogToClean(log, Long.parseLong(fields[2]), Long.parseLong(fields[3]), false);
            Map.Entry<Long, CleanerStats> done = cleaner.doClean(target, Long.parseLong(fields[1]));
            System.out.println(done.getKey());
            log.close();
        }
        System.exit(0);
    }

    /** Nothing is flushed or deleted behind our back. */
    static class Never implements Scheduler {
        private static final ScheduledThreadPoolExecutor later = new ScheduledThreadPoolExecutor(1);

        public void startup() { }

        public void shutdown() { }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return later.schedule(() -> { }, 1, TimeUnit.DAYS);
        }

        public void resizeThreadPool(int newSize) { }
    }
}
