import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes to topics all that clients can, in two halves with a pause in which the broker may write its checkpoints,
 * and ends without closing anything: BusyLife BOOTSTRAP PAUSE_MS TOPIC...
 */
public class BusyLife {
    private static final int ROUNDS = 8;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static String bootstrap;
    // Ahead of the broker's clock, so that its markers, which have its time, do not decide when segments roll.
    private static long time = System.currentTimeMillis() + 60_000;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        List<String> topics = List.of(args).subList(2, args.length);
        List<KafkaProducer<byte[], byte[]>> plain = new ArrayList<>();
        for (String codec : CODECS)
            plain.add(producer("enable.idempotence", "false", "compression.type", codec));
        var idempotent = producer("enable.idempotence", "true");
        var transactional = producer("transactional.id", "tx-a");
        transactional.initTransactions();
        for (int round = 0; round < ROUNDS; round++) {
            if (round == ROUNDS / 2)
                Thread.sleep(Long.parseLong(args[1]));
            time += 25_000;
            send(plain.get(round % plain.size()), topics, 4, "plain " + round);
            send(idempotent, topics, 3, "idempotent " + round);
            transactional.beginTransaction();
            send(transactional, topics, 2, "transactional " + round);
            if (round % 2 == 0)
                transactional.commitTransaction();
            else
                transactional.abortTransaction();
        }
        var open = producer("transactional.id", "tx-open", "transaction.timeout.ms", "600000");
        open.initTransactions();
        open.beginTransaction();
        send(open, topics, 3, "left open");
        send(idempotent, topics, 3, "the last");
        Runtime.getRuntime().halt(0);
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, List<String> topics, int count, String text) {
        for (String topic : topics) {
            for (int i = 0; i < count; i++) {
                byte[] key = i == 1 ? null : ("key-" + i).getBytes();
                byte[] value = i == 2 ? null : (text + ", record " + i + " " + "x".repeat(80)).getBytes();
                var record = new ProducerRecord<>(topic, 0, time + i, key, value);
                if (i == 3)
                    record.headers().add(new RecordHeader("h1", new byte[] {1})).add(new RecordHeader("h2", (byte[]) null));
                producer.send(record);
            }
        }
        producer.flush();
        time += 10;
    }

    private static KafkaProducer<byte[], byte[]> producer(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "1000");
        for (int i = 0; i < settings.length; i += 2)
            properties.put(settings[i], settings[i + 1]);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
