"""The TestCase classes that test authors derive from; they start rank modes but handle no processes."""
