// Writes a record and reads it again with franz-go: BOOTSTRAP PROTOCOL MECHANISM FOLDER TOPIC.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap, protocol, mechanism, folder, topic := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic)}
	if strings.HasSuffix(protocol, "SSL") {
		ca, err := os.ReadFile(folder + "/ca.pem")
		must(err)
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(ca)
		if protocol == "SSL" {
			pair, err := tls.LoadX509KeyPair(folder+"/alice.crt", folder+"/alice.key")
			must(err)
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	logins := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha512Mechanism(),
	}
	if login, found := logins[mechanism]; found {
		options = append(options, kgo.SASL(login))
	}
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	must(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("from franz-go")}).FirstErr())
	fetches := client.PollFetches(ctx)
	must(fetches.Err())
	fmt.Println(string(fetches.Records()[0].Value))
}
