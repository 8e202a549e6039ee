"""What a test author subclasses; translation only, no process handling."""
