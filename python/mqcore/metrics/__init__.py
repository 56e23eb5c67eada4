"""Figures of a program on their way out: families, Prometheus's text, data points of OpenTelemetry.

Knows no program: families and rows are given.
"""
