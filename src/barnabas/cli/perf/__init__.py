"""The performance tools, with statistics and reports as Apache Kafka's tools print them."""
