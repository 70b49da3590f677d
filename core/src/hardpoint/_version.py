"""The version of this distribution, readable without opening its metadata; a test keeps both equal."""

VERSION = "0.1.0"
