"""Tests of applications on the test kit, one module for each client or framework.

python -m pytest examples/testing/test_confluent_kafka.py
"""
