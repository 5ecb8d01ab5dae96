"""Pipelines: named sources, transforms and sinks in one file.

    from barnabas.spark.pipeline import Pipeline

    pipeline = Pipeline("orders", settings={"bootstrap": "localhost:9092"}, checkpoint="checkpoints/orders")

    @pipeline.source
    def orders(spark, settings): ...

    @pipeline.transform
    def large(orders): return orders.where("amount > 100")

    pipeline.to_topic("large", of="large", topic="orders.large", exactly_once=True)

Reading order: `definition` (the parts), `loading` and `toml_file` (from a file), `starting` and `running`
(its queries), `checkpoints`, `graph`.
"""

from barnabas.spark.pipeline.definition import Pipeline, PipelineError
from barnabas.spark.pipeline.loading import load
from barnabas.spark.pipeline.running import Running

__all__ = ["Pipeline", "PipelineError", "Running", "load"]
