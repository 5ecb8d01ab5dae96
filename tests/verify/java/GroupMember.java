import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group that says on standard output what it has and what it reads, until its input ends.
 * Arguments: BOOTSTRAP GROUP TOPIC, then options as KEY=VALUE.
 */
public class GroupMember {
    public static void main(String[] args) throws Exception {
        Properties options = new Properties();
        options.put("bootstrap.servers", args[0]);
        options.put("group.id", args[1]);
        options.put("auto.offset.reset", "earliest");
        for (int index = 3; index < args.length; index++) {
            String[] pair = args[index].split("=", 2);
            options.put(pair[0], pair[1]);
        }
        try (var consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[2]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                }
            });
            String last = "";
            while (System.in.available() == 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println("read " + record.value());
                }
                var numbers = new TreeSet<Integer>();
                consumer.assignment().forEach(partition -> numbers.add(partition.partition()));
                if (!numbers.toString().equals(last)) {
                    last = numbers.toString();
                    System.out.println("has " + last);
                }
            }
        }
        System.out.println("closed");
    }
}
