"""The version, readable without opening the distribution's metadata; a test keeps both equal."""

VERSION = "0.1.0"
