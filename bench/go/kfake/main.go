// kfake, the Kafka broker of franz-go for tests in Go, measured as bench/rows/kit.py measures our test kit.
//
// It reads a line with what to measure, and writes a line with milliseconds, until its input ends.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const tests = 200

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func sinceMs(began time.Time) float64 {
	return float64(time.Since(began).Microseconds()) / 1000
}

// A cluster is started, and stopped: both in milliseconds.
func startAndStop(brokers int) (float64, float64) {
	began := time.Now()
	cluster := must(kfake.NewCluster(kfake.NumBrokers(brokers)))
	start := sinceMs(began)
	began = time.Now()
	cluster.Close()
	return start, sinceMs(began)
}

// For each test a topic is made, written to, and deleted.
func topics(cluster *kfake.Cluster) float64 {
	ctx := context.Background()
	client := must(kgo.NewClient(
		kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.ProducerLinger(0),
		// The least that the client allows: its own waiting is not to be measured.
		kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
	))
	defer client.Close()
	admin := kadm.NewClient(client)
	began := time.Now()
	for number := range tests {
		name := fmt.Sprintf("orders-%d-%d", began.UnixNano(), number)
		must(admin.CreateTopic(ctx, 1, 1, nil, name))
		record := &kgo.Record{Topic: name, Value: []byte("a")}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			log.Fatal(err)
		}
		must(admin.DeleteTopics(ctx, name))
	}
	return sinceMs(began)
}

func main() {
	cluster := must(kfake.NewCluster(kfake.NumBrokers(1)))
	defer cluster.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "start 1":
			fmt.Println(startAndStop(1))
		case "start 3":
			fmt.Println(startAndStop(3))
		case "topics":
			fmt.Println(topics(cluster))
		default:
			log.Fatalf("start 1, start 3 or topics, not %q", lines.Text())
		}
	}
}
