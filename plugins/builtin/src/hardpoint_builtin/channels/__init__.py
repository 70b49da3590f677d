"""Ways to reach a person: console, file, webhook, SMTP, desktop notification."""
