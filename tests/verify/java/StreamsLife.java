import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Two Kafka Streams applications, each run until it is told to end.
 *
 * words: counts the words of `lines` into `counts` (a repartitioning, a state store with its changelog).
 * sums: for each number in `numbers` one line "how many:their sum" of its key in `sums`, exactly once.
 */
public class StreamsLife {
    public static void main(String[] args) throws Exception {
        String job = args[0];
        StreamsBuilder builder = new StreamsBuilder();
        if (job.equals("words"))
            words(builder);
        else
            sums(builder);
        KafkaStreams streams = new KafkaStreams(builder.build(), options(job, args[1], args[2]));
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static Properties options(String job, String bootstrap, String folder) {
        Properties options = new Properties();
        options.putAll(Map.of(
            "application.id", "streams-" + job,
            "bootstrap.servers", bootstrap,
            "state.dir", folder,
            "commit.interval.ms", "100",
            "statestore.cache.max.bytes", "0",
            "num.stream.threads", "2",
            "consumer.auto.offset.reset", "earliest",
            "consumer.session.timeout.ms", "6000",
            "producer.transaction.timeout.ms", "10000"));
        if (job.equals("sums"))
            options.put("processing.guarantee", "exactly_once_v2");
        return options;
    }

    private static void words(StreamsBuilder builder) {
        KStream<String, String> lines = builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()));
        lines.flatMapValues(line -> words(line))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static List<String> words(String line) {
        return Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+"));
    }

    private static void sums(StreamsBuilder builder) {
        builder.stream("numbers", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "0:0", (key, number, before) -> next(before, Long.parseLong(number)),
                Materialized.with(Serdes.String(), Serdes.String()))
            .toStream()
            .to("sums", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static String next(String before, long number) {
        String[] parts = before.split(":");
        return (Long.parseLong(parts[0]) + 1) + ":" + (Long.parseLong(parts[1]) + number);
    }
}
