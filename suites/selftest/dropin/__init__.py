"""Self-tests of harness.dropin, part by part; ``test_dropin`` beside this folder runs whole files."""
