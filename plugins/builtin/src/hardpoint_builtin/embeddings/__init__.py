"""Models that turn texts into vectors: any OpenAI-compatible endpoint, or one on this machine."""
