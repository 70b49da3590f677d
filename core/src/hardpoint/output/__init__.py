"""What comes back from a tool, and what goes out in its arguments: leak scan, cap, results."""
