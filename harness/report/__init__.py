"""What people and machines read of a run: failure texts, and one reporter a file behind ``base.Reporter``."""
