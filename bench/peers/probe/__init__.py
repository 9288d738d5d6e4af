"""What runs inside a library's environment: the standard library, openai, and that library only."""
