"""Parts of the tools that measure: statistics, and reports as Apache Kafka's tools print them."""
