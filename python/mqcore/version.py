"""The version of the package. Below everything, so that every module may name it."""

__version__ = "0.1.0"
