"""What runs inside a rank."""
